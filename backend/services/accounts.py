"""Accounts: registration, log-in, and the user of a token or key."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.auth.credentials import (
    EVERY_SCOPE,
    Passwords,
    Principal,
    Scope,
    hash_key,
    is_api_key,
    new_api_key,
)
from backend.auth.tokens import Tokens
from backend.errors import RequestRefusedError, UnauthenticatedError
from backend.identifiers import new_id
from backend.repositories import users
from backend.repositories.users import StoredKey, insert_key, revoke_key
from theatre.engine.clock import Clock
from theatre.engine.errors import NotFoundError


async def register(
    engine: AsyncEngine,
    passwords: Passwords,
    *,
    username: str,
    email: str,
    password: str,
    clock: Clock,
) -> str:
    """Create a user and return its id; RequestRefusedError where name or address is taken."""
    # Before a transaction begins: a slow hash must not hold a connection.
    password_hash = await passwords.hash(password)
    now = clock()
    user_id = new_id(now)
    async with engine.begin() as connection:
        is_new = await users.insert_user(
            connection,
            user_id=user_id,
            username=username,
            email=email,
            password_hash=password_hash,
            created_at=now,
        )
    if not is_new:
        raise RequestRefusedError("already-registered", "this name or this address is taken")
    return user_id


async def log_in(
    engine: AsyncEngine, passwords: Passwords, tokens: Tokens, *, username: str, password: str
) -> str:
    """Return a token; UnauthenticatedError for a wrong name as for a wrong password."""
    async with engine.connect() as connection:
        user = await users.find_user_by_name(connection, username)
    # Compared also for an unknown name: the response time must not show which names exist.
    if not await passwords.match(password, user.password_hash if user else None) or user is None:
        raise UnauthenticatedError("expected the password of a user")
    return tokens.issue(user.id)


async def authenticate(
    engine: AsyncEngine, tokens: Tokens, credential: str, *, clock: Clock
) -> Principal:
    """Return the user of this token or key; UnauthenticatedError for any other credential."""
    if is_api_key(credential):
        return await _authenticate_key(engine, credential, clock=clock)
    user_id = tokens.user_of(credential)
    async with engine.connect() as connection:
        # One statement: a transaction would cost two more round trips at every request.
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        user = await users.find_user_by_id(connection, user_id)
    if user is None:
        raise UnauthenticatedError("expected the token of a user that there is")
    return Principal(user_id=user.id, username=user.username, scopes=EVERY_SCOPE)


async def _authenticate_key(engine: AsyncEngine, key: str, *, clock: Clock) -> Principal:
    digest, now = hash_key(key), clock()
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        owner = await users.find_key_owner(connection, digest, at=now)
        if owner is not None:
            await users.record_use(connection, digest, owner, at=now)
    if owner is None:
        raise UnauthenticatedError("expected a key that is in use")
    return Principal(
        user_id=owner.user_id,
        username=owner.username,
        scopes=frozenset(scope for scope in Scope if scope.value in owner.scopes),
    )


# Keys for tools: made, listed and revoked by their owner.


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
