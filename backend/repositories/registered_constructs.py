"""Construct ids that belong to users, and which of them the operator has confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import RegisteredConstruct

_SHOWN = (
    RegisteredConstruct.construct_id,
    RegisteredConstruct.author,
    RegisteredConstruct.created_at,
    RegisteredConstruct.confirmed_at,
)


class StoredConstruct(NamedTuple):
    """A registration as its owner sees it."""

    construct_id: str
    author: str | None
    created_at: datetime
    confirmed_at: datetime | None


async def register_construct(
    connection: AsyncConnection, construct: StoredConstruct, *, user_id: str
) -> bool:
    """Store a registration; False where the id is taken."""
    row = {**construct._asdict(), "user_id": user_id}
    statement = insert_or_leave(RegisteredConstruct).values(row).on_conflict_do_nothing()
    stored = await connection.execute(statement.returning(RegisteredConstruct.construct_id))
    return stored.first() is not None


async def constructs_of(connection: AsyncConnection, user_id: str) -> Sequence[StoredConstruct]:
    """Return a user's registrations by id."""
    query = select(*_SHOWN).where(RegisteredConstruct.user_id == user_id)
    found = await connection.execute(query.order_by(RegisteredConstruct.construct_id))
    return [StoredConstruct._make(row) for row in found]


async def confirm(
    connection: AsyncConnection, construct_id: str, *, user_id: str, at: datetime
) -> bool:
    """Confirm that an id is a user's; False where it is not theirs. The first time stays."""
    own = (
        RegisteredConstruct.construct_id == construct_id,
        RegisteredConstruct.user_id == user_id,
    )
    await connection.execute(
        update(RegisteredConstruct)
        .where(*own, RegisteredConstruct.confirmed_at.is_(None))
        .values(confirmed_at=at)
    )
    found = await connection.execute(select(RegisteredConstruct.construct_id).where(*own))
    return found.first() is not None
