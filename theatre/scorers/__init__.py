"""The shipped scorers, one pure file each, and the loader of every installed one."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from theatre.engine.errors import TheatreError
from theatre.engine.models import Scorer

ENTRY_POINT_GROUP = "echelon.scorers"


class ScorerRegistrationError(TheatreError):
    """An installed distribution registers a scorer that cannot be used."""

    code = "scorer-registration"


def load_scorers() -> dict[str, Scorer]:
    """Return every scorer installed in this environment by name, sorted by name.

    Errors as `registered_scorers`.
    """
    return registered_scorers(entry_points(group=ENTRY_POINT_GROUP))


def registered_scorers(entries: Iterable[EntryPoint]) -> dict[str, Scorer]:
    """Return the scorers that `entries` point to by name, sorted by name.

    Raises ScorerRegistrationError for an entry that cannot be imported, that is no `Scorer`,
    whose own name is not the scorer's, or whose name stands for another scorer already. The
    same scorer registered twice counts once.
    """
    found: dict[str, Scorer] = {}
    for entry in entries:
        scorer = _load(entry)
        if found.setdefault(scorer.name, scorer) is not scorer:
            raise ScorerRegistrationError(
                f"expected one scorer of the name {scorer.name}, got two: one of them is "
                f"{entry.value}; uninstall one or rename it"
            )
    return dict(sorted(found.items()))


def _load(entry: EntryPoint) -> Scorer:
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ScorerRegistrationError(
            f"expected scorer {entry.name} at {entry.value}, got {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, Scorer):
        raise ScorerRegistrationError(
            f"expected a Scorer at {entry.value}, got {type(loaded).__name__}"
        )
    if loaded.name != entry.name:
        raise ScorerRegistrationError(
            f"expected the scorer at {entry.value} to bear the name of its entry point, "
            f"{entry.name}; got {loaded.name}"
        )
    return loaded
