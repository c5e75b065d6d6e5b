"""A whole run that a worker holds: from the commitment to its end, or until it is divided."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import BackendError
from backend.repositories.theatre_runs import StoredTheatre, claim_now
from backend.services.held import RunEnd, Standing
from backend.services.run_endings import RunEndings
from theatre.engine.errors import StateConflictError, TheatreError
from theatre.engine.theatre import CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """Implements `backend.services.held.Held` for the holder of a theatre's epoch."""

    stored: StoredTheatre
    endings: RunEndings

    @property
    def lost_workers(self) -> int:
        """Return how many workers it lost in a row."""
        return self.stored.lost_workers

    @property
    def standing(self) -> Standing:
        """Return how it stood when it was taken up."""
        return Standing(self.stored.cancel_requested_at is not None, self.stored.lost_workers)

    async def look(self, connection: AsyncConnection) -> Standing:
        """Return how it stands now."""
        now = await claim_now(connection, self.stored.id)
        if now.run_epoch != self.stored.run_epoch:
            raise StateConflictError(
                f"expected to hold the run of theatre {self.stored.id} in epoch "
                f"{self.stored.run_epoch}, got epoch {now.run_epoch}: another worker has it"
            )
        return Standing(now.cancel_requested_at is not None, now.lost_workers)

    async def note(self, end: RunEnd) -> None:
        """Say how it ended, or for whom it waits."""
        if end.status is not None:
            await self.endings.note(self.stored, end, status=end.status)

    async def cancel(self) -> None:
        """Resolve it as void."""
        await self.endings.fail(self.stored, CANCELLED)

    async def hand_over(self) -> None:
        """Queue it again."""
        await self.endings.hand_over(self.stored)

    async def postpone(self, error: Exception) -> None:
        """Queue it for later."""
        await self.endings.postpone(self.stored, error)

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """Leave what cannot be begun COMMITTED; end what was begun."""
        await self.endings.refuse(self.stored, error)

    async def fail(self, outcome: dict[str, str]) -> None:
        """Resolve what was begun with `outcome`."""
        await self.endings.fail(self.stored, outcome)
