"""A shard that a worker holds: its calls, and what becomes of the run when they are done.

Who gives up the last shard queues the run, whose next job settles it, in one transaction. Who
cannot go on takes the whole run from the other shards, and ends it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.errors import BackendError
from backend.jobs.queue import queue_shard
from backend.repositories.fences import hold_for_writing
from backend.repositories.run_shards import (
    ShardClaim,
    claim_shard,
    episodes_of,
    give_up_shard,
    hold_shard,
    last_counting,
    seize_run,
    shard_now,
)
from backend.repositories.theatre_runs import StoredTheatre, change_run, stored_theatre
from backend.services.held import RunEnd, Standing
from backend.services.run_endings import MENDED_SECONDS, RunEndings, waits_for
from backend.services.shard_places import ShardPlaces
from theatre.engine.errors import TheatreError
from theatre.engine.replay.scoring_pass import failure_stop
from theatre.engine.templates import product_template


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShard:
    """Implements `backend.services.held.Held` for the holder of a shard's epoch."""

    engine: AsyncEngine
    endings: RunEndings
    places: ShardPlaces
    stored: StoredTheatre
    claim: ShardClaim
    job_id: int
    fatal: int | None
    """With how many failures the run ends."""
    standing: Standing

    @classmethod
    async def claimed(
        cls,
        engine: AsyncEngine,
        theatre_id: str,
        number: int,
        *,
        job_id: int,
        endings: RunEndings,
        places: ShardPlaces,
    ) -> Self | None:
        """Take a shard up; None where it waits for no job, or for another."""
        async with engine.begin() as connection:
            claim = await claim_shard(connection, theatre_id, number, job_id=job_id)
            if claim is None:
                return None
            stored = await stored_theatre(connection, theatre_id)
            template = product_template(stored.value().template)
            fatal = failure_stop(template, await episodes_of(connection, theatre_id)).fatal
            standing = await _standing(connection, stored, claim, fatal)
        return cls(
            engine=engine,
            endings=endings,
            places=places,
            stored=stored,
            claim=claim,
            job_id=job_id,
            fatal=fatal,
            standing=standing,
        )

    @property
    def lost_workers(self) -> int:
        """Return how many workers it lost in a row."""
        return self.claim.lost_workers

    async def look(self, connection: AsyncConnection) -> Standing:
        """Return how it stands now."""
        return await _standing(connection, self.stored, self.claim, self.fatal)

    async def note(self, end: RunEnd) -> None:  # noqa: ARG002 - a shard ends in one way
        """Say that its episodes are recorded, or needed by nobody."""
        await self._give_up("done")

    async def cancel(self) -> None:
        """Leave it; whoever leaves the last one queues the run, to be ended."""
        await self._give_up("waiting")

    async def hand_over(self) -> None:
        """Queue it again."""
        async with self._holding() as (connection, is_held):
            if is_held:
                await queue_shard(connection, self.stored.id, self.claim.number)

    async def postpone(self, error: Exception) -> None:
        """Queue it for later, and have the theatre say why."""
        moment = self.endings.now() + timedelta(seconds=MENDED_SECONDS)
        async with self._holding() as (connection, is_held):
            if is_held:
                await change_run(connection, self.stored.id, error=waits_for(error))
                await queue_shard(connection, self.stored.id, self.claim.number, at=moment)

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """End the run, and with it the other shards."""
        await self.endings.refuse(await self._seized(), error)

    async def fail(self, outcome: dict[str, str]) -> None:
        """End the run with `outcome`, and with it the other shards."""
        await self.endings.fail(await self._seized(), outcome)

    async def _give_up(self, state: str) -> None:
        async with self._holding() as (connection, is_held):
            if not is_held:
                return
            now = await self.look(connection)
            await give_up_shard(connection, self.stored.id, self.claim.number, state=state)
            await self.places.move_on(connection, self.stored, is_cancelled=now.is_cancelled)

    async def _seized(self) -> StoredTheatre:
        async with self._holding() as (connection, _):
            await seize_run(connection, self.stored.id, job_id=self.job_id)
        return self.stored._replace(run_epoch=self.stored.run_epoch + 1)

    @asynccontextmanager
    async def _holding(self) -> AsyncIterator[tuple[AsyncConnection, bool]]:
        """Begin a transaction that locks theatre and shard; say whether it is not yet given up.

        StateConflictError where either is another's.
        """
        stored, claim = self.stored, self.claim
        async with self.engine.begin() as connection:
            await hold_for_writing(connection, stored.id, epoch=stored.run_epoch, shard=claim.fence)
            is_held = await hold_shard(
                connection, stored.id, claim.number, state="running", epoch=claim.epoch
            )
            yield connection, is_held


async def _standing(
    connection: AsyncConnection, stored: StoredTheatre, claim: ShardClaim, fatal: int | None
) -> Standing:
    now = await shard_now(connection, stored.id, run_epoch=stored.run_epoch, shard=claim.fence)
    last = None
    if fatal is not None and now.failure_count >= fatal:
        last = await last_counting(connection, stored.id, fatal=fatal)
    return Standing(now.is_cancelled, now.lost_workers, last)
