"""Plug-ins by entry point: loaded once, each under its own name, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple, Protocol, TypeVar

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeRunner, Scorer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import (
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    TemplateView,
)


class _Named(Protocol):
    @property
    def name(self) -> str:
        """Return the name under which the plug-in is registered."""


PluginT = TypeVar("PluginT", bound=_Named)


def load_plugins(
    entries: Iterable[EntryPoint], kind: type[PluginT], refusal: type[TheatreError]
) -> dict[str, PluginT]:
    """Return the plug-ins of type `kind` that `entries` point to by name, sorted by name.

    Raises `refusal` for an entry that cannot be imported, that is no `kind`, whose own name
    is not the plug-in's, or whose name stands for another plug-in already. The same plug-in
    registered twice counts once.
    """
    found: dict[str, PluginT] = {}
    for entry in entries:
        plugin = _load(entry, kind, refusal)
        if found.setdefault(plugin.name, plugin) is not plugin:
            raise refusal(
                f"expected one {kind.__name__.lower()} of the name {plugin.name}, got two: one of "
                f"them is {entry.value}; uninstall one or rename it"
            )
    return dict(sorted(found.items()))


def _load(entry: EntryPoint, kind: type[PluginT], refusal: type[TheatreError]) -> PluginT:
    noun = kind.__name__.lower()
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise refusal(
            f"expected {noun} {entry.name} at {entry.value}, got {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, kind):
        raise refusal(f"expected a {kind.__name__} at {entry.value}, got {type(loaded).__name__}")
    if loaded.name != entry.name:
        raise refusal(
            f"expected the {noun} at {entry.value} to bear the name of its entry point, "
            f"{entry.name}; got {loaded.name}"
        )
    return loaded


# The loader of every installed runner of interactive episodes.


ENTRY_POINT_GROUP = "echelon.episode_runners"


class RunnerRegistrationError(TheatreError):
    """An installed distribution registers a runner that cannot be used."""

    code = "runner-registration"


def load_episode_runners() -> dict[str, EpisodeRunner]:
    """Return every runner installed in this environment by name, sorted by name.

    Raises RunnerRegistrationError as `load_scorers` does for scorers.
    """
    entries = entry_points(group=ENTRY_POINT_GROUP)
    return load_plugins(entries, EpisodeRunner, RunnerRegistrationError)


# Which versions of which scorers a commitment is about, and what these rest on.


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
