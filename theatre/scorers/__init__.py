"""The shipped scorers, one pure file each, and the loader of every installed one."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from theatre.engine.errors import TheatreError
from theatre.engine.models import Scorer
from theatre.scorers.registration import load_plugins

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
    return load_plugins(entries, Scorer, ScorerRegistrationError)
