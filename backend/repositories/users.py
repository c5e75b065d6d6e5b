"""Users: names and addresses are unique without regard to case."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ApiKey, User
from backend.repositories.pages import Page, Window, count_rows, newest_first

# API keys. Every statement for a user has the user in its WHERE clause.


_NOTED_EVERY = timedelta(minutes=1)
"""The last use of a key is stored to the minute: not every request must write."""


class StoredKey(NamedTuple):
    """A key as its owner sees it, without the secret."""

    id: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class KeyOwner(NamedTuple):
    """The owner of a key, its scopes, and its last recorded use."""

    user_id: str
    username: str
    scopes: list[str]
    last_used_at: datetime | None


async def insert_key(
    connection: AsyncConnection, *, key: StoredKey, user_id: str, secret_sha256: str
) -> None:
    """Store a key of a user."""
    await connection.execute(
        insert(ApiKey), {**key._asdict(), "user_id": user_id, "secret_sha256": secret_sha256}
    )


async def find_keys(connection: AsyncConnection, user_id: str) -> Sequence[StoredKey]:
    """Return all keys of a user, the newest first."""
    found = await connection.execute(
        select(*_SHOWN).where(ApiKey.user_id == user_id).order_by(*_NEWEST_FIRST)
    )
    return [StoredKey(*row) for row in found]


async def find_keys_page(
    connection: AsyncConnection, user_id: str, window: Window
) -> Page[StoredKey]:
    """Return a page of a user's keys, the newest first."""
    own = ApiKey.user_id == user_id
    query = newest_first(select(*_SHOWN).where(own), window, ApiKey.created_at, ApiKey.id)
    found = await connection.execute(query)
    return Page([StoredKey(*row) for row in found], await count_rows(connection, ApiKey, own))


async def revoke_key(
    connection: AsyncConnection, *, key_id: str, user_id: str, at: datetime
) -> StoredKey | None:
    """Revoke a user's key from `at` on; None if it is not theirs.

    A key that is revoked already keeps its first time of revocation.
    """
    own = (ApiKey.id == key_id, ApiKey.user_id == user_id)
    await connection.execute(
        update(ApiKey).where(*own, ApiKey.revoked_at.is_(None)).values(revoked_at=at)
    )
    row = (await connection.execute(select(*_SHOWN).where(*own))).first()
    return None if row is None else StoredKey(*row)


async def find_key_owner(
    connection: AsyncConnection, secret_sha256: str, *, at: datetime
) -> KeyOwner | None:
    """Return the owner of a key; None unless key and user are valid at `at`."""
    row = (await connection.execute(_OWNER, {"secret_sha256": secret_sha256, "at": at})).first()
    return None if row is None else KeyOwner(*row)


async def record_use(
    connection: AsyncConnection, secret_sha256: str, owner: KeyOwner, *, at: datetime
) -> None:
    """Record that a key was used, unless that was recorded within the minute."""
    if owner.last_used_at is None or owner.last_used_at < at - _NOTED_EVERY:
        await connection.execute(
            update(ApiKey).where(ApiKey.secret_sha256 == secret_sha256).values(last_used_at=at)
        )


_OWNER = (
    select(User.id, User.username, ApiKey.scopes, ApiKey.last_used_at)
    .join(User, User.id == ApiKey.user_id)
    .where(
        ApiKey.secret_sha256 == bindparam("secret_sha256"),
        ApiKey.expires_at > bindparam("at"),
        ApiKey.revoked_at.is_(None),
        User.disabled_at.is_(None),
    )
)
_NEWEST_FIRST = (ApiKey.created_at.desc(), ApiKey.id.desc())
_SHOWN = (
    ApiKey.id,
    ApiKey.name,
    ApiKey.scopes,
    ApiKey.created_at,
    ApiKey.expires_at,
    ApiKey.last_used_at,
    ApiKey.revoked_at,
)


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
