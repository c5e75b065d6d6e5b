"""Accounts: registration, log-in, passwords, invites, and the user of a token or key."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.auth.credentials import (
    EVERY_SCOPE,
    Passwords,
    Principal,
    Scope,
    hash_key,
    is_api_key,
    new_api_key,
    new_invite,
)
from backend.auth.tokens import Tokens
from backend.database.models.base import new_id
from backend.errors import RequestRefusedError, UnauthenticatedError
from backend.repositories import users
from backend.repositories.users import StoredInvite, StoredKey, insert_key, revoke_key
from theatre.engine.clock import Clock
from theatre.engine.errors import NotFoundError

Registering = Literal["open", "invite", "closed"]


async def register(
    engine: AsyncEngine,
    passwords: Passwords,
    registering: Registering,
    *,
    username: str,
    email: str,
    password: str,
    invite: str | None,
    clock: Clock,
) -> str:
    """Create a user and return its id.

    Raises RequestRefusedError where registration is closed, where it needs an invite and this is
    none that is good now, and where name or address is taken: the invite is then still good.
    """
    if registering == "closed":
        raise RequestRefusedError(
            "registration-closed", "expected a service that registers users, got one that does not"
        )
    code_sha256 = hash_key(invite or "") if registering == "invite" else None
    # Before names are looked at: without an invite it must not be seen which are taken.
    if code_sha256 is not None:
        async with engine.connect() as connection:
            if not await users.is_good_invite(connection, code_sha256, at=clock()):
                raise _invite_invalid()
    # Before a transaction begins: a slow hash must not hold a connection.
    password_hash = await passwords.hash(password)
    now = clock()
    async with engine.begin() as connection:
        user_id = await insert_new_user(
            connection, username=username, email=email, password_hash=password_hash, at=now
        )
        if code_sha256 is not None and not await users.spend_invite(
            connection, code_sha256, user_id=user_id, at=now
        ):
            raise _invite_invalid()
    return user_id


async def insert_new_user(
    connection: AsyncConnection,
    *,
    username: str,
    email: str,
    password_hash: str,
    at: datetime,
    is_operator: bool = False,
) -> str:
    """Store a user and return its id; RequestRefusedError where name or address is taken."""
    user_id = new_id(at)
    if not await users.insert_user(
        connection,
        user_id=user_id,
        username=username,
        email=email,
        password_hash=password_hash,
        created_at=at,
        is_operator=is_operator,
    ):
        raise RequestRefusedError("already-registered", "this name or this address is taken")
    return user_id


def _invite_invalid() -> RequestRefusedError:
    return RequestRefusedError(
        "invite-invalid",
        "expected an invite that is not used, revoked or expired, got none or another: ask the "
        "operator for a new one",
    )


async def log_in(
    engine: AsyncEngine, passwords: Passwords, tokens: Tokens, *, username: str, password: str
) -> str:
    """Return a token; UnauthenticatedError for a wrong name as for a wrong password."""
    async with engine.connect() as connection:
        user = await users.find_user_by_name(connection, username)
    # Compared also for an unknown name: the response time must not show which names exist.
    if not await passwords.match(password, user.password_hash if user else None) or user is None:
        raise UnauthenticatedError("expected the password of a user")
    # The generation of before the comparison: a password that was changed meanwhile gives no token.
    return tokens.issue(user.id, generation=user.token_generation)


async def change_password(
    engine: AsyncEngine, passwords: Passwords, tokens: Tokens, user_id: str, *, old: str, new: str
) -> str:
    """Replace a user's password, end all their tokens, and return a new one.

    RequestRefusedError, and nothing is changed, unless `old` is the password in use.
    """
    async with engine.connect() as connection:
        user = await users.find_user_by_id(connection, user_id)
    wrong = RequestRefusedError("wrong-password", "expected the password in use, got another")
    if user is None or not await passwords.match(old, user.password_hash):
        raise wrong
    password_hash = await passwords.hash(new)
    async with engine.begin() as connection:
        generation = await users.replace_password(
            connection, user_id, password_hash, instead_of=user.password_hash
        )
    if generation is None:
        raise wrong
    return tokens.issue(user_id, generation=generation)


async def sign_out(engine: AsyncEngine, user_id: str) -> None:
    """End all tokens of a user: a copy of the one that a browser had is worth nothing, too."""
    async with engine.begin() as connection:
        await users.end_tokens(connection, user_id)


async def authenticate(
    engine: AsyncEngine, tokens: Tokens, credential: str, *, clock: Clock
) -> Principal:
    """Return the user of this token or key; UnauthenticatedError for any other credential."""
    if is_api_key(credential):
        return await _authenticate_key(engine, credential, clock=clock)
    subject = tokens.subject_of(credential)
    async with engine.connect() as connection:
        # One statement: a transaction would cost two more round trips at every request.
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        user = await users.find_user_by_id(connection, subject.user_id)
    if user is None or user.token_generation != subject.generation:
        raise UnauthenticatedError("expected a token that was not ended, of a user that there is")
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


# Invites: made by the operator, spent by `register`.


class NewInvite(NamedTuple):
    """An invite at the only moment at which its code can be read."""

    code: str
    stored: StoredInvite


async def create_invite(
    connection: AsyncConnection, *, note: str, days: int, clock: Clock
) -> NewInvite:
    """Make an invite, good once and for `days` (1 to 366). Works for the owner of the tables."""
    now, code = clock(), new_invite()
    stored = StoredInvite(
        id=new_id(now),
        note=note,
        created_at=now,
        expires_at=now + timedelta(days=days),
        revoked_at=None,
        used_at=None,
        used_by=None,
    )
    await users.insert_invite(connection, invite=stored, code_sha256=hash_key(code))
    return NewInvite(code, stored)
