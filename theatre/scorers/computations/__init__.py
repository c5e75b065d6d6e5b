"""The shipped computations over whole datasets, and the loader of every installed one."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from theatre.engine.errors import TheatreError
from theatre.engine.models import Computation
from theatre.scorers.registration import load_plugins

ENTRY_POINT_GROUP = "echelon.computations"


class ComputationRegistrationError(TheatreError):
    """An installed distribution registers a computation that cannot be used."""

    code = "computation-registration"


def load_computations() -> dict[str, Computation]:
    """Return every computation installed in this environment by name, sorted by name.

    Errors as `registered_computations`.
    """
    return registered_computations(entry_points(group=ENTRY_POINT_GROUP))


def registered_computations(entries: Iterable[EntryPoint]) -> dict[str, Computation]:
    """Return the computations that `entries` point to by name, sorted by name.

    Raises ComputationRegistrationError for an entry that cannot be imported, that is no
    `Computation`, whose own name is not the computation's, or whose name stands for another
    computation already. The same computation registered twice counts once.
    """
    return load_plugins(entries, Computation, ComputationRegistrationError)
