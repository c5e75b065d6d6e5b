"""Keys for tools: made, listed and revoked by their owner."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.auth.api_keys import hash_key, new_api_key
from backend.auth.principals import Scope
from backend.identifiers import new_id
from backend.repositories.api_keys import StoredKey, insert_key, revoke_key
from theatre.engine.clock import Clock
from theatre.engine.errors import NotFoundError

MAX_DAYS = 366


class NewKey(NamedTuple):
    """A key at the only moment at which it can be read."""

    key: str
    stored: StoredKey


async def create_key(
    connection: AsyncConnection,
    *,
    user_id: str,
    name: str,
    scopes: Collection[Scope],
    days: int,
    clock: Clock,
) -> NewKey:
    """Make a key for a user, good for `days` (1 to 366)."""
    now = clock()
    key = new_api_key()
    stored = StoredKey(
        id=new_id(now),
        name=name,
        scopes=sorted(set(scopes)),
        created_at=now,
        expires_at=now + timedelta(days=days),
        last_used_at=None,
        revoked_at=None,
    )
    await insert_key(connection, key=stored, user_id=user_id, secret_sha256=hash_key(key))
    return NewKey(key, stored)


async def revoke(
    connection: AsyncConnection, *, key_id: str, user_id: str, clock: Clock
) -> StoredKey:
    """Revoke a key of a user; NotFoundError where it is not theirs."""
    stored = await revoke_key(connection, key_id=key_id, user_id=user_id, at=clock())
    if stored is None:
        raise NotFoundError("expected a key of this user, got none")
    return stored
