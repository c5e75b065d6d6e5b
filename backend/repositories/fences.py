"""Who may write for a run: the holder of its epoch."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre
from theatre.engine.errors import NotFoundError, StateConflictError


async def lock_for_writing(connection: AsyncConnection, theatre_id: str, *, epoch: int) -> str:
    """Lock a theatre's row for this transaction; return the theatre's state.

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
    return str(row.state)
