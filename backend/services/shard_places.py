"""Slots of shards: which are worked on, and how many calls each may make (ADR 0127, 0128).

The committed `max_concurrency` holds over all of them together: a shard has a share of it from when
it is queued until it is given up, and the shares never add up to more.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.jobs.queue import queue_run, queue_shard
from backend.jobs.workers import WORKERS_OF_A_PROCESS
from backend.repositories.fences import lock_for_writing
from backend.repositories.run_shards import (
    add_shards,
    count_run_episodes,
    count_slots,
    find_waiting_shards,
    hand_to_shards,
    has_shards,
)
from backend.repositories.theatre_runs import StoredTheatre
from theatre.engine.templates import product_template

_LIVING = text("""
    SELECT count(*) FROM procrastinate_workers
    WHERE last_heartbeat > now() - make_interval(secs => :lease_seconds)
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSlots:
    """Assigns slots to shards, as many as the workers of the database have."""

    shard_episodes: int
    runs_at_a_time: int
    """Of this process; all processes are assumed to have the same."""
    lease_seconds: float

    async def divide(self, connection: AsyncConnection, stored: StoredTheatre) -> bool:
        """Divide a locked run into shards, if it should be, and tell whether it was.

        It is, once, where the template committed several calls at a time and there are more
        episodes than a shard has. StateConflictError where another holds the run.
        """
        limit = _committed_limit(stored)
        if limit == 1:
            return False
        # Under the row's lock, so that a run is divided only once.
        await lock_for_writing(connection, stored.id, epoch=stored.run_epoch)
        total = await count_run_episodes(connection, stored.id)
        if total <= self.shard_episodes or await has_shards(connection, stored.id):
            return False
        await add_shards(connection, stored.id, total=total, size=self.shard_episodes)
        await hand_to_shards(connection, stored.id)
        await self._fill(connection, stored.id, limit)
        return True

    async def advance(
        self, connection: AsyncConnection, stored: StoredTheatre, *, is_cancelled: bool
    ) -> None:
        """Give free slots to waiting shards; queue the run once no shard has a slot.

        The caller has locked the run and released its own shard. A cancelled run gets no slots.
        """
        if not is_cancelled:
            await self._fill(connection, stored.id, _committed_limit(stored))
        if not (await count_slots(connection, stored.id)).taken:
            await queue_run(connection, stored.id)

    async def _fill(self, connection: AsyncConnection, theatre_id: str, limit: int) -> None:
        places = await count_slots(connection, theatre_id)
        free = limit - places.shares
        wanted = max(await self._slots(connection), 1) - places.taken
        waiting = await find_waiting_shards(connection, theatre_id, limit=max(0, min(wanted, free)))
        for number, share in zip(waiting, divide_evenly(free, len(waiting)), strict=True):
            await queue_shard(connection, theatre_id, number, share=share)

    async def _slots(self, connection: AsyncConnection) -> int:
        """Return how many runs and shards all living processes together carry at a time."""
        values = {"lease_seconds": self.lease_seconds}
        living = int((await connection.execute(_LIVING, values)).scalar_one())
        return living // WORKERS_OF_A_PROCESS * self.runs_at_a_time


def divide_evenly(calls: int, parts: int) -> list[int]:
    """Return `calls` divided into `parts` that differ by one at most, the larger ones first."""
    return [calls // parts + (part < calls % parts) for part in range(parts)]


def _committed_limit(stored: StoredTheatre) -> int:
    return product_template(stored.value().template).execution_policy.max_concurrency
