"""The shipped scorers, one pure file each, and the loaders of every installed plug-in.

Scorers, computations and episode runners come by entry point: each is imported when it is first
looked up under its own name, or refused with a reason.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Generic, NamedTuple, Protocol, TypeVar

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import TheatreError
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import MarketTheatreTemplate, ProductTheatreTemplate, TemplateView


class ScorerRegistrationError(TheatreError):
    """An installed distribution registers a scorer that cannot be used."""

    code = "scorer-registration"


class ComputationRegistrationError(TheatreError):
    """An installed distribution registers a computation that cannot be used."""

    code = "computation-registration"


class RunnerRegistrationError(TheatreError):
    """An installed distribution registers a runner that cannot be used."""

    code = "runner-registration"


def load_scorers() -> Mapping[str, Scorer]:
    """Return every installed scorer by name, sorted by name; errors as `registered_scorers`."""
    return registered_scorers(_installed("echelon.scorers"))


def registered_scorers(entries: Iterable[EntryPoint]) -> Mapping[str, Scorer]:
    """Return the scorers that `entries` point to by name, sorted by name.

    A look-up raises ScorerRegistrationError for an entry that cannot be imported, that is no
    `Scorer`, whose own name is not the scorer's, or whose name stands for another scorer, too. The
    same scorer registered twice counts once.
    """
    return _Plugins(entries, Scorer, ScorerRegistrationError)


def load_computations() -> Mapping[str, Computation]:
    """Return every installed computation by name; errors as `registered_computations`."""
    return registered_computations(_installed("echelon.computations"))


def registered_computations(entries: Iterable[EntryPoint]) -> Mapping[str, Computation]:
    """Return computations by the rules of `registered_scorers`; ComputationRegistrationError."""
    return _Plugins(entries, Computation, ComputationRegistrationError)


def load_episode_runners() -> Mapping[str, EpisodeRunner]:
    """Return every installed runner of interactive episodes by name, sorted by name.

    A look-up raises RunnerRegistrationError as that of `registered_scorers` does for scorers.
    """
    entries = _installed("echelon.episode_runners")
    return _Plugins(entries, EpisodeRunner, RunnerRegistrationError)


def _installed(group: str) -> EntryPoints:
    return _found(group, tuple(sys.path))


@cache
def _found(group: str, search_path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - where
    # Each look reads a file of every distribution there is, and a run looks six times.
    return entry_points(group=group)


class _Named(Protocol):
    @property
    def name(self) -> str:
        """Return the name under which the plug-in is registered."""


_PluginT = TypeVar("_PluginT", bound=_Named)


class _Plugins(Mapping[str, _PluginT], Generic[_PluginT]):
    """Plug-ins by name, each imported when it is first looked up: a run uses two of thirty."""

    def __init__(
        self, entries: Iterable[EntryPoint], kind: type[_PluginT], refusal: type[TheatreError]
    ) -> None:
        self._entries: dict[str, list[EntryPoint]] = {}
        for entry in sorted(entries, key=lambda entry: entry.name):
            self._entries.setdefault(entry.name, []).append(entry)
        self._kind = kind
        self._refusal = refusal
        self._loaded: dict[str, _PluginT] = {}

    def __getitem__(self, name: str) -> _PluginT:
        if name not in self._loaded:
            first, *others = self._entries[name]
            plugin = _load(first, self._kind, self._refusal)
            # Two of one name: which one scores would depend on the order of installation.
            for entry in others:
                if _load(entry, self._kind, self._refusal) is not plugin:
                    raise self._refusal(
                        f"expected one {self._kind.__name__.lower()} of the name {name}, got two: "
                        f"one of them is {entry.value}; uninstall one or rename it"
                    )
            self._loaded[name] = plugin
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


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
