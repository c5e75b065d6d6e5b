"""What a worker has taken up by a job: a run, or a shard of one (docs/adr/0127)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import BackendError
from backend.repositories.theatre_runs import StoredTheatre
from theatre.engine.errors import TheatreError


class LeaseStatus(NamedTuple):
    """How what is held stands now."""

    is_cancelled: bool
    lost_workers: int
    """How many it lost in a row since it last recorded anything."""
    last_counting: int | None = None
    """The episode behind which none can count any more, where that is known."""


class RunEnd(NamedTuple):
    """Where a run came to: a status of the row, and the step that waits for people, if one does.

    No status where the row says already that the run's shards carry it.
    """

    status: str | None
    pending_step: str | None = None
    seconds_left: float | None = None
    """Until the committed time limit of that step, if it has one."""


class Lease(Protocol):
    """A run or a shard that is held. What ends it is written under its epoch, or not at all."""

    @property
    def stored(self) -> StoredTheatre:
        """Return the theatre as it was when this was taken up."""

    @property
    def lost_workers(self) -> int:
        """Return how many workers it lost in a row that recorded nothing new."""

    @property
    def status(self) -> LeaseStatus:
        """Return how it stood then."""

    async def read_status(self, connection: AsyncConnection) -> LeaseStatus:
        """Return how it stands now; StateConflictError where it is another's."""

    async def note(self, end: RunEnd) -> None:
        """Say where it came to."""

    async def cancel(self) -> None:
        """End it, as its owner wants."""

    async def requeue(self) -> None:
        """Queue it for whoever is free."""

    async def postpone(self, error: Exception) -> None:
        """Queue it for whoever is free in a while, and say what it waits for."""

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """End the run as what could not be carried on."""

    async def fail(self, outcome: dict[str, str]) -> None:
        """End the run with `outcome`, without a certificate."""
