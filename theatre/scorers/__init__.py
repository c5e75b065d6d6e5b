"""The shipped scorers, one pure file each, and the loaders of every installed plug-in.

Scorers, computations and episode runners come by entry point: loaded once, each under its own
name, or refused with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import NamedTuple, Protocol, TypeVar

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import TheatreError
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import (
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    TemplateView,
)


class ScorerRegistrationError(TheatreError):
    """An installed distribution registers a scorer that cannot be used."""

    code = "scorer-registration"


class ComputationRegistrationError(TheatreError):
    """An installed distribution registers a computation that cannot be used."""

    code = "computation-registration"


class RunnerRegistrationError(TheatreError):
    """An installed distribution registers a runner that cannot be used."""

    code = "runner-registration"


def load_scorers() -> dict[str, Scorer]:
    """Return every installed scorer by name, sorted by name; errors as `registered_scorers`."""
    return registered_scorers(_installed("echelon.scorers"))


def registered_scorers(entries: Iterable[EntryPoint]) -> dict[str, Scorer]:
    """Return the scorers that `entries` point to by name, sorted by name.

    Raises ScorerRegistrationError for an entry that cannot be imported, that is no `Scorer`,
    whose own name is not the scorer's, or whose name stands for another scorer already. The
    same scorer registered twice counts once.
    """
    return _load_plugins(entries, Scorer, ScorerRegistrationError)


def load_computations() -> dict[str, Computation]:
    """Return every installed computation by name; errors as `registered_computations`."""
    return registered_computations(_installed("echelon.computations"))


def registered_computations(entries: Iterable[EntryPoint]) -> dict[str, Computation]:
    """Return computations by the rules of `registered_scorers`; ComputationRegistrationError."""
    return _load_plugins(entries, Computation, ComputationRegistrationError)


def load_episode_runners() -> dict[str, EpisodeRunner]:
    """Return every installed runner of interactive episodes by name, sorted by name.

    Raises RunnerRegistrationError as `registered_scorers` does for scorers.
    """
    entries = _installed("echelon.episode_runners")
    return _load_plugins(entries, EpisodeRunner, RunnerRegistrationError)


def _installed(group: str) -> EntryPoints:
    return _all_installed(tuple(sys.path)).select(group=group)


@cache
def _all_installed(search_path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - what is found
    # Reads a file of every distribution there is, and a run asks six times.
    return entry_points()


class _Named(Protocol):
    @property
    def name(self) -> str:
        """Return the name under which the plug-in is registered."""


_PluginT = TypeVar("_PluginT", bound=_Named)


def _load_plugins(
    entries: Iterable[EntryPoint], kind: type[_PluginT], refusal: type[TheatreError]
) -> dict[str, _PluginT]:
    found: dict[str, _PluginT] = {}
    for entry in entries:
        plugin = _load(entry, kind, refusal)
        # Two of one name: which one scores would depend on the order of installation.
        if found.setdefault(plugin.name, plugin) is not plugin:
            raise refusal(
                f"expected one {kind.__name__.lower()} of the name {plugin.name}, got two: one of "
                f"them is {entry.value}; uninstall one or rename it"
            )
    return dict(sorted(found.items()))


def _load(entry: EntryPoint, kind: type[_PluginT], refusal: type[TheatreError]) -> _PluginT:
    noun = kind.__name__.lower()
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise refusal(
            f"expected {noun} {entry.name} at {entry.value}, got {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, kind):
        raise refusal(f"expected a {kind.__name__} at {entry.value}, got {type(loaded).__name__}")
    # A receipt pins names: one plug-in must not stand under another's.
    if loaded.name != entry.name:
        raise refusal(
            f"expected the {noun} at {entry.value} to bear the name of its entry point, "
            f"{entry.name}; got {loaded.name}"
        )
    return loaded


class ScorersInUse(NamedTuple):
    """Scorer → version, and scorer → kind, as written in the receipt."""

    pins: dict[str, str]
    kinds: dict[str, str]


def scorers_in_use(
    document: JsonObject, view: TemplateView, scorers: Mapping[str, Scorer]
) -> ScorersInUse:
    """Return what scores a replay; of a market, which nothing scores here, what was pinned."""
    if isinstance(view, ProductTheatreTemplate):
        provider = TheatreScoringProvider(document, scorers)
        return ScorersInUse(provider.scorer_pins, provider.scorer_kinds)
    return ScorersInUse(
        dict(view.scorer_pins) if isinstance(view, MarketTheatreTemplate) else {}, {}
    )
