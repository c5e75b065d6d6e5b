"""The shards of a run: created, claimed and released under the lock of the theatre's row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import RunShard, Theatre, TheatreEpisodeScore
from backend.repositories.fences import ShardFence, lease_lost_error
from theatre.engine.errors import StateConflictError
from theatre.engine.models import EpisodeOutcome

_HAS_A_PLACE = RunShard.state.in_(("queued", "running"))


class ShardClaim(NamedTuple):
    """A shard that was taken up: the episodes, and how many calls it may make at a time."""

    number: int
    first_seq: int
    last_seq: int
    epoch: int
    share: int
    lost_workers: int

    @property
    def span(self) -> range:
        """Return the sequence numbers of its episodes."""
        return range(self.first_seq, self.last_seq + 1)

    @property
    def fence(self) -> ShardFence:
        """Return the fence that its writes must pass."""
        return ShardFence(self.number, self.epoch)


class SlotUsage(NamedTuple):
    """How many shards of a run are worked on, or are about to be, and their shares together."""

    taken: int
    shares: int


class ShardStatus(NamedTuple):
    """The state of a shard and of its run, as its worker needs it."""

    is_cancelled: bool
    failure_count: int
    lost_workers: int


async def has_shards(connection: AsyncConnection, theatre_id: str) -> bool:
    """Tell whether a run was ever divided."""
    query = select(RunShard.number).where(RunShard.theatre_id == theatre_id).limit(1)
    return (await connection.execute(query)).first() is not None


async def count_run_episodes(connection: AsyncConnection, theatre_id: str) -> int:
    """Return how many episodes a run has; 0 before it is ACTIVE."""
    query = select(Theatre.total_episodes).where(Theatre.id == theatre_id)
    return int((await connection.execute(query)).scalar_one())


async def add_shards(
    connection: AsyncConnection, theatre_id: str, *, total: int, size: int
) -> None:
    """Divide a run of `total` episodes into shards of `size`, all of them waiting."""
    firsts = range(1, total + 1, size)
    rows = [
        {
            "theatre_id": theatre_id,
            "number": number,
            "first_seq": first,
            "last_seq": min(first + size - 1, total),
        }
        for number, first in enumerate(firsts, start=1)
    ]
    await connection.execute(insert(RunShard), rows)


async def hand_to_shards(connection: AsyncConnection, theatre_id: str) -> None:
    """Hand a run to its shards: it has no job, and its last worker can no longer write."""
    left = update(Theatre).where(Theatre.id == theatre_id)
    await connection.execute(left.values(run_job_id=None, run_epoch=Theatre.run_epoch + 1))


async def claim_shard(
    connection: AsyncConnection, theatre_id: str, number: int, *, job_id: int
) -> ShardClaim | None:
    """Take up the shard that waits for this job; None where it waits for none, or another.

    Only while its shards carry the run, which the caller's transaction must ensure.
    """
    carried = (
        select(Theatre.id)
        .where(
            Theatre.id == theatre_id, Theatre.run_status == "running", Theatre.run_job_id.is_(None)
        )
        .with_for_update(key_share=True)
    )
    if (await connection.execute(carried)).first() is None:
        return None
    claimed = (
        update(RunShard)
        .where(*_named(theatre_id, number), RunShard.job_id == job_id, RunShard.state == "queued")
        .values(state="running", epoch=RunShard.epoch + 1)
        .returning(*(getattr(RunShard, field) for field in ShardClaim._fields))
    )
    row = (await connection.execute(claimed)).first()
    return None if row is None else ShardClaim._make(row)


async def count_lost_workers_of_shard(
    connection: AsyncConnection, theatre_id: str, number: int
) -> int:
    """Return how many workers a shard has lost since it last came further."""
    query = select(RunShard.lost_workers).where(*_named(theatre_id, number))
    return int((await connection.execute(query)).scalar_one())


async def lock_shard(
    connection: AsyncConnection, theatre_id: str, number: int, *, state: str, **having: int
) -> bool:
    """Lock a shard in this state whose `epoch` or `job_id` is the given one; tell whether it is."""
    conditions = [getattr(RunShard, column) == value for column, value in having.items()]
    query = select(RunShard.number).where(
        *_named(theatre_id, number), RunShard.state == state, *conditions
    )
    held = await connection.execute(query.with_for_update(key_share=True))
    return held.first() is not None


async def release_shard(
    connection: AsyncConnection, theatre_id: str, number: int, *, state: str
) -> None:
    """Take a shard's share back and set it to `waiting` or `done`; the caller has it locked."""
    given_up = update(RunShard).where(*_named(theatre_id, number))
    await connection.execute(given_up.values(state=state, share=0, job_id=None))


async def seize_run(connection: AsyncConnection, theatre_id: str, *, job_id: int) -> None:
    """Take a run from its shards for the job of one, which is to end it; the caller holds it.

    After that all shards are `done`, and a worker that holds one can no longer write.
    """
    seized = update(Theatre).where(Theatre.id == theatre_id)
    await connection.execute(seized.values(run_epoch=Theatre.run_epoch + 1, run_job_id=job_id))
    closed = update(RunShard).where(RunShard.theatre_id == theatre_id)
    await connection.execute(closed.values(state="done", share=0, job_id=None))


async def count_slots(connection: AsyncConnection, theatre_id: str) -> SlotUsage:
    """Return how many shards have a place."""
    query = select(func.count(), func.coalesce(func.sum(RunShard.share), 0))
    row = await connection.execute(query.where(RunShard.theatre_id == theatre_id, _HAS_A_PLACE))
    return SlotUsage._make(row.one())


async def find_waiting_shards(
    connection: AsyncConnection, theatre_id: str, *, limit: int
) -> Sequence[int]:
    """Return the next shards without a place, in dataset order, at most `limit`."""
    query = (
        select(RunShard.number)
        .where(RunShard.theatre_id == theatre_id, RunShard.state == "waiting")
        .order_by(RunShard.number)
        .limit(limit)
    )
    return (await connection.execute(query)).scalars().all()


async def read_shard_status(
    connection: AsyncConnection, theatre_id: str, *, run_epoch: int, shard: ShardFence
) -> ShardStatus:
    """Return the state of a run; StateConflictError where another worker has it or the shard."""
    query = (
        select(
            Theatre.run_epoch,
            Theatre.cancel_requested_at,
            Theatre.failure_count,
            RunShard.epoch,
            RunShard.lost_workers,
        )
        .join(RunShard, RunShard.theatre_id == Theatre.id)
        .where(*_named(theatre_id, shard.number))
    )
    row = (await connection.execute(query)).one()
    if row.run_epoch != run_epoch:
        raise StateConflictError(
            f"expected to hold the run of theatre {theatre_id} in epoch {run_epoch}, "
            f"got epoch {row.run_epoch}: another worker has it"
        )
    if row.epoch != shard.epoch:
        raise lease_lost_error(theatre_id, shard, row.epoch)
    return ShardStatus(row.cancel_requested_at is not None, row.failure_count, row.lost_workers)


async def last_counting(connection: AsyncConnection, theatre_id: str, *, fatal: int) -> int | None:
    """Return the last episode that can count: the failure number `fatal` in dataset order.

    Later failures can only move it towards the beginning. None where there are fewer.
    """
    table = TheatreEpisodeScore
    query = (
        select(table.seq)
        # Literal text, so that PostgreSQL can use the partial index.
        .where(table.theatre_id == theatre_id, text(f"outcome = '{EpisodeOutcome.MISSING}'"))
        .order_by(table.seq)
        .offset(fatal - 1)
        .limit(1)
    )
    return (await connection.execute(query)).scalar_one_or_none()


def _named(theatre_id: str, number: int) -> tuple[ColumnElement[bool], ...]:
    return RunShard.theatre_id == theatre_id, RunShard.number == number
