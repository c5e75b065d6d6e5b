"""The lease of a shard: its calls, and what follows for the run when they are done.

The worker that releases the last shard queues the run in the same transaction; the run's next job
settles it. A worker that cannot go on takes the whole run from the other shards, and ends it.
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
from backend.repositories.fences import lock_for_writing
from backend.repositories.run_shards import (
    ShardClaim,
    claim_shard,
    count_run_episodes,
    last_counting,
    lock_shard,
    read_shard_status,
    release_shard,
    seize_run,
)
from backend.repositories.theatre_runs import StoredTheatre, change_run, read_stored_theatre
from backend.services.held import LeaseStatus, RunEnd
from backend.services.run_endings import RETRY_SECONDS, RunCompletion, describe_wait
from backend.services.shard_places import ShardSlots
from theatre.engine.errors import TheatreError
from theatre.engine.replay.scoring_pass import failure_stop
from theatre.engine.templates import product_template


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLease:
    """Implements `backend.services.held.Lease` for the holder of a shard's epoch."""

    engine: AsyncEngine
    completion: RunCompletion
    places: ShardSlots
    stored: StoredTheatre
    claim: ShardClaim
    job_id: int
    fatal: int | None
    """The number of failures that ends the run."""
    status: LeaseStatus

    @classmethod
    async def claimed(
        cls,
        engine: AsyncEngine,
        theatre_id: str,
        number: int,
        *,
        job_id: int,
        completion: RunCompletion,
        places: ShardSlots,
    ) -> Self | None:
        """Take a shard up; None where it does not wait for this job."""
        async with engine.begin() as connection:
            claim = await claim_shard(connection, theatre_id, number, job_id=job_id)
            if claim is None:
                return None
            stored = await read_stored_theatre(connection, theatre_id)
            template = product_template(stored.value().template)
            fatal = failure_stop(template, await count_run_episodes(connection, theatre_id)).fatal
            status = await _read_status(connection, stored, claim, fatal)
        return cls(
            engine=engine,
            completion=completion,
            places=places,
            stored=stored,
            claim=claim,
            job_id=job_id,
            fatal=fatal,
            status=status,
        )

    @property
    def lost_workers(self) -> int:
        """Return how many workers it has lost in a row."""
        return self.claim.lost_workers

    async def read_status(self, connection: AsyncConnection) -> LeaseStatus:
        """Return how it stands now."""
        return await _read_status(connection, self.stored, self.claim, self.fatal)

    async def note(self, end: RunEnd) -> None:  # noqa: ARG002 - a shard ends in one way
        """Record that its episodes are recorded, or no longer needed."""
        await self._release("done")

    async def cancel(self) -> None:
        """Release it; the worker that releases the last shard queues the run, to be ended."""
        await self._release("waiting")

    async def requeue(self) -> None:
        """Queue it again."""
        async with self._lock() as (connection, is_held):
            if is_held:
                await queue_shard(connection, self.stored.id, self.claim.number)

    async def postpone(self, error: Exception) -> None:
        """Queue it for later, and store the reason in the theatre's row."""
        moment = self.completion.now() + timedelta(seconds=RETRY_SECONDS)
        async with self._lock() as (connection, is_held):
            if is_held:
                await change_run(connection, self.stored.id, error=describe_wait(error))
                await queue_shard(connection, self.stored.id, self.claim.number, at=moment)

    async def refuse(self, error: TheatreError | BackendError) -> None:
        """End the run, and with it the other shards."""
        await self.completion.refuse(await self._seize(), error)

    async def fail(self, outcome: dict[str, str]) -> None:
        """End the run with `outcome`, and with it the other shards."""
        await self.completion.fail(await self._seize(), outcome)

    async def _release(self, state: str) -> None:
        async with self._lock() as (connection, is_held):
            if not is_held:
                return
            now = await self.read_status(connection)
            await release_shard(connection, self.stored.id, self.claim.number, state=state)
            await self.places.advance(connection, self.stored, is_cancelled=now.is_cancelled)

    async def _seize(self) -> StoredTheatre:
        async with self._lock() as (connection, _):
            await seize_run(connection, self.stored.id, job_id=self.job_id)
        return self.stored._replace(run_epoch=self.stored.run_epoch + 1)

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[tuple[AsyncConnection, bool]]:
        """Begin a transaction that locks theatre and shard; yield whether the shard is still held.

        StateConflictError where either is another's.
        """
        stored, claim = self.stored, self.claim
        async with self.engine.begin() as connection:
            await lock_for_writing(connection, stored.id, epoch=stored.run_epoch, shard=claim.fence)
            is_held = await lock_shard(
                connection, stored.id, claim.number, state="running", epoch=claim.epoch
            )
            yield connection, is_held


async def _read_status(
    connection: AsyncConnection, stored: StoredTheatre, claim: ShardClaim, fatal: int | None
) -> LeaseStatus:
    now = await read_shard_status(
        connection, stored.id, run_epoch=stored.run_epoch, shard=claim.fence
    )
    last = None
    if fatal is not None and now.failure_count >= fatal:
        last = await last_counting(connection, stored.id, fatal=fatal)
    return LeaseStatus(now.is_cancelled, now.lost_workers, last)
