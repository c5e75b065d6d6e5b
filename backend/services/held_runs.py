"""The lease of a whole run: from the commitment to its end, or until it is divided."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import BackendError
from backend.repositories.theatre_runs import StoredTheatre, read_claim
from backend.services.held import LeaseStatus, RunEnd
from backend.services.run_endings import RunCompletion
from theatre.engine.errors import StateConflictError, TheatreError
from theatre.engine.theatre import CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLease:
    """Implements `backend.services.held.Lease` for the holder of a theatre's epoch."""

    stored: StoredTheatre
    completion: RunCompletion

    @property
    def lost_workers(self) -> int:
        """Return how many workers it has lost in a row."""
        return self.stored.lost_workers

    @property
    def status(self) -> LeaseStatus:
        """Return its state when it was taken up."""
        return LeaseStatus(self.stored.cancel_requested_at is not None, self.stored.lost_workers)

    async def read_status(self, connection: AsyncConnection) -> LeaseStatus:
        """Return its state now."""
        now = await read_claim(connection, self.stored.id)
        if now.run_epoch != self.stored.run_epoch:
            raise StateConflictError(
                f"expected to hold the run of theatre {self.stored.id} in epoch "
                f"{self.stored.run_epoch}, got epoch {now.run_epoch}: another worker has it"
            )
        return LeaseStatus(now.cancel_requested_at is not None, now.lost_workers)

    async def note(self, end: RunEnd) -> None:
        """Record how it ended, or which step it waits at."""
        if end.status is not None:
            await self.completion.note(self.stored, end, status=end.status)

    async def cancel(self) -> None:
        """Resolve it as void."""
        await self.completion.fail(self.stored, CANCELLED)

    async def requeue(self) -> None:
        """Queue it again."""
        await self.completion.requeue(self.stored)

    async def postpone(self, error: Exception) -> None:
        """Queue it for later."""
        await self.completion.postpone(self.stored, error)

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """Leave a run that cannot begin COMMITTED; end one that has begun."""
        await self.completion.refuse(self.stored, error)

    async def fail(self, outcome: dict[str, str]) -> None:
        """Resolve a run that has begun with `outcome`."""
        await self.completion.fail(self.stored, outcome)
