"""Users: names and addresses are unique without regard to case."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import User


class StoredUser(NamedTuple):
    """A user who may log in."""

    id: str
    username: str
    password_hash: str


async def insert_user(
    connection: AsyncConnection,
    *,
    user_id: str,
    username: str,
    email: str,
    password_hash: str,
    created_at: datetime,
) -> bool:
    """Store a user; False where the name or the address is taken."""
    statement = insert_or_leave(User).values(
        id=user_id,
        username=username,
        email=email,
        password_hash=password_hash,
        created_at=created_at,
    )
    stored = await connection.execute(statement.on_conflict_do_nothing().returning(User.id))
    return stored.first() is not None


async def find_user_by_name(connection: AsyncConnection, username: str) -> StoredUser | None:
    """Return the user of a name, unless there is none or it is disabled."""
    row = (await connection.execute(_BY_NAME, {"username": username})).first()
    return None if row is None else StoredUser(*row)


async def find_user_id(connection: AsyncConnection, username: str) -> str | None:
    """Return the id of a user, disabled or not; None for an unknown name."""
    is_named = func.lower(User.username) == func.lower(username)
    found: str | None = await connection.scalar(select(User.id).where(is_named))
    return found


async def find_user_by_id(connection: AsyncConnection, user_id: str) -> StoredUser | None:
    """Return a user, unless there is none or it is disabled."""
    row = (await connection.execute(_BY_ID, {"user_id": user_id})).first()
    return None if row is None else StoredUser(*row)


_ENABLED = select(User.id, User.username, User.password_hash).where(User.disabled_at.is_(None))
_BY_NAME = _ENABLED.where(func.lower(User.username) == func.lower(bindparam("username")))
_BY_ID = _ENABLED.where(User.id == bindparam("user_id"))
