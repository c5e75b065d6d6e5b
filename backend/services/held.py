"""Leases: a run, or a shard of one, that a worker has taken up by a job (docs/adr/0127)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import BackendError
from backend.repositories.theatre_runs import StoredTheatre
from theatre.engine.errors import TheatreError


class LeaseStatus(NamedTuple):
    """The state of a leased run or shard now."""

    is_cancelled: bool
    lost_workers: int
    """How many workers it has lost in a row since it last recorded anything."""
    last_counting: int | None = None
    """The last episode that can still count, where that is known."""


class RunEnd(NamedTuple):
    """The end of an attempt: a status of the row, and the step that waits for people, if any.

    No status where the row already says that the run's shards carry it.
    """

    status: str | None
    pending_step: str | None = None
    seconds_left: float | None = None
    """Seconds until the committed time limit of that step, if it has one."""


class Lease(Protocol):
    """A leased run or shard. Its end is written under its epoch, or not at all."""

    @property
    def stored(self) -> StoredTheatre:
        """Return the theatre as it was when this was taken up."""

    @property
    def lost_workers(self) -> int:
        """Return how many workers it lost in a row that recorded nothing new."""

    @property
    def status(self) -> LeaseStatus:
        """Return its state when it was taken up."""

    async def read_status(self, connection: AsyncConnection) -> LeaseStatus:
        """Return its state now; StateConflictError where another worker holds it."""

    async def note(self, end: RunEnd) -> None:
        """Record how the attempt ended."""

    async def cancel(self) -> None:
        """End it, as its owner asked."""

    async def requeue(self) -> None:
        """Queue it again for any free worker."""

    async def postpone(self, error: Exception) -> None:
        """Queue it again for later, and store what it waits for."""

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """End a run that cannot go on."""

    async def fail(self, outcome: dict[str, str]) -> None:
        """End the run with `outcome`, without a certificate."""
