"""API keys. Every statement for a user has the user in its WHERE clause."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, func, insert, literal, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ApiKey, User
from backend.repositories.theatre_views import Place

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
    connection: AsyncConnection, user_id: str, *, limit: int, offset: int, after: Place | None
) -> tuple[Sequence[StoredKey], int]:
    """Return a page of a user's keys, the newest first, and how many there are."""
    own = ApiKey.user_id == user_id
    query = select(*_SHOWN).where(own)
    if after is not None:
        place = tuple_(after.created_at, literal(after.id, ApiKey.id.type))
        query = query.where(tuple_(ApiKey.created_at, ApiKey.id) < place)
    found = await connection.execute(query.order_by(*_NEWEST_FIRST).limit(limit).offset(offset))
    counted = select(func.count()).select_from(ApiKey).where(own)
    total = int((await connection.execute(counted)).scalar_one())
    return [StoredKey(*row) for row in found], total


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
