"""Construct ids that belong to users, and which of them the operator has confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, literal, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import RegisteredConstruct
from backend.repositories.theatre_views import Place
from theatre.engine.canonical_json import sha256_hex

_SHOWN = (
    RegisteredConstruct.construct_id,
    RegisteredConstruct.author,
    RegisteredConstruct.created_at,
    RegisteredConstruct.confirmed_at,
)

_PLACE = (
    RegisteredConstruct.created_at,
    func.encode(func.sha256(func.convert_to(RegisteredConstruct.construct_id, "UTF8")), "hex"),
)


class StoredConstruct(NamedTuple):
    """A registration as its owner sees it."""

    construct_id: str
    author: str | None
    created_at: datetime
    confirmed_at: datetime | None

    @property
    def place(self) -> Place:
        """Return where it stands in a list: ids may be long, so their hash breaks ties."""
        return Place(self.created_at, sha256_hex(self.construct_id.encode()))


async def register_construct(
    connection: AsyncConnection, construct: StoredConstruct, *, user_id: str
) -> bool:
    """Store a registration; False where the id is taken."""
    row = {**construct._asdict(), "user_id": user_id}
    statement = insert_or_leave(RegisteredConstruct).values(row).on_conflict_do_nothing()
    stored = await connection.execute(statement.returning(RegisteredConstruct.construct_id))
    return stored.first() is not None


async def constructs_page(
    connection: AsyncConnection, user_id: str, *, limit: int, offset: int, after: Place | None
) -> tuple[Sequence[StoredConstruct], int]:
    """Return a page of a user's registrations, the newest first, and how many there are."""
    own = RegisteredConstruct.user_id == user_id
    query = select(*_SHOWN).where(own)
    if after is not None:
        place = tuple_(after.created_at, literal(after.id))
        query = query.where(tuple_(*_PLACE) < place)
    newest_first = [column.desc() for column in _PLACE]
    found = await connection.execute(query.order_by(*newest_first).limit(limit).offset(offset))
    counted = select(func.count()).select_from(RegisteredConstruct).where(own)
    total = int((await connection.execute(counted)).scalar_one())
    return [StoredConstruct._make(row) for row in found], total


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
