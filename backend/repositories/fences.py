"""Fencing: a run's writer must hold its epoch and, in a shard, the shard's epoch.

Lock order: the theatre's row first, then the shard's, or two writers could deadlock
(docs/adr/0127).
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import RunShard, Theatre
from theatre.engine.errors import NotFoundError, StateConflictError


class ShardFence(NamedTuple):
    """A shard, and the epoch in which it was taken up."""

    number: int
    epoch: int


async def lock_for_writing(
    connection: AsyncConnection, theatre_id: str, *, epoch: int, shard: ShardFence | None = None
) -> str:
    """Lock a theatre's row, and its shard's, for this transaction; return the theatre's state.

    NotFoundError where there is none, StateConflictError where another worker holds it.
    """
    query = (
        select(Theatre.state, Theatre.run_epoch)
        .where(Theatre.id == theatre_id)
        .with_for_update(key_share=True)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError(f"expected theatre {theatre_id}, got none")
    if row.run_epoch != epoch:
        raise StateConflictError(
            f"expected to hold the run of theatre {theatre_id} in epoch {epoch}, "
            f"got epoch {row.run_epoch}: another worker has taken it up"
        )
    if shard is not None:
        await _lock_shard(connection, theatre_id, shard)
    return str(row.state)


async def reset_lost_workers(
    connection: AsyncConnection, theatre_id: str, shard: ShardFence
) -> None:
    """Reset a shard's count of lost workers: it has recorded something."""
    behind = update(RunShard).where(
        RunShard.theatre_id == theatre_id,
        RunShard.number == shard.number,
        RunShard.lost_workers > 0,
    )
    await connection.execute(behind.values(lost_workers=0))


async def _lock_shard(connection: AsyncConnection, theatre_id: str, shard: ShardFence) -> None:
    query = (
        select(RunShard.epoch)
        .where(RunShard.theatre_id == theatre_id, RunShard.number == shard.number)
        .with_for_update(key_share=True)
    )
    epoch = (await connection.execute(query)).scalar_one_or_none()
    if epoch != shard.epoch:
        raise lease_lost_error(theatre_id, shard, epoch)


def lease_lost_error(theatre_id: str, shard: ShardFence, epoch: int | None) -> StateConflictError:
    """Return the error for a worker that holds a shard in an older epoch."""
    return StateConflictError(
        f"expected to hold shard {shard.number} of theatre {theatre_id} in epoch {shard.epoch}, "
        f"got epoch {epoch}: another worker has taken it up"
    )
