"""Users, their keys and invites: names and addresses are unique without regard to case."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ApiKey, Invite, User
from backend.repositories.pages import Page, Window, find_own

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
    query = _SHOWN.where(ApiKey.user_id == user_id)
    found = await connection.execute(query.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()))
    return [StoredKey(*row) for row in found]


async def find_keys_page(
    connection: AsyncConnection, user_id: str, window: Window
) -> Page[StoredKey]:
    """Return a page of a user's keys, the newest first."""
    return await find_own(
        connection, ApiKey, StoredKey._make, _SHOWN, window, user_id=user_id, wanted={}
    )


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
    row = (await connection.execute(_SHOWN.where(*own))).first()
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
_SHOWN = select(*ApiKey.columns(StoredKey._fields))


class StoredUser(NamedTuple):
    """A user who may log in."""

    id: str
    username: str
    password_hash: str
    token_generation: int


class ListedUser(NamedTuple):
    """A user as the operator sees them."""

    id: str
    username: str
    email: str
    is_operator: bool
    created_at: datetime
    disabled_at: datetime | None


async def insert_user(
    connection: AsyncConnection,
    *,
    user_id: str,
    username: str,
    email: str,
    password_hash: str,
    created_at: datetime,
    is_operator: bool = False,
) -> bool:
    """Store a user; False where the name or the address is taken.

    Only the owner of the tables can store an operator.
    """
    statement = insert_or_leave(User).values(
        id=user_id,
        username=username,
        email=email,
        password_hash=password_hash,
        created_at=created_at,
        # The service's role may not name this column, not even to say no.
        **({"is_operator": True} if is_operator else {}),
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


async def list_users(connection: AsyncConnection) -> Sequence[ListedUser]:
    """Return all users, the oldest first."""
    return [ListedUser(*row) for row in await connection.execute(_LISTED)]


async def replace_password(
    connection: AsyncConnection, user_id: str, password_hash: str, *, instead_of: str | None = None
) -> int | None:
    """Store a password's hash, end all tokens, and return the new generation of tokens.

    None, and nothing is changed, for an unknown user, and where the hash that is stored is not
    `instead_of`. Without `instead_of` any is replaced.
    """
    changed = update(User).where(User.id == user_id)
    if instead_of is not None:
        changed = changed.where(User.password_hash == instead_of, User.disabled_at.is_(None))
    found: int | None = await connection.scalar(
        changed.values(
            password_hash=password_hash, token_generation=User.token_generation + 1
        ).returning(User.token_generation)
    )
    return found


async def end_tokens(connection: AsyncConnection, user_id: str) -> None:
    """End all tokens of a user, sessions of browsers among them; keys stay."""
    await connection.execute(
        update(User).where(User.id == user_id).values(token_generation=User.token_generation + 1)
    )


async def disable_user(connection: AsyncConnection, user_id: str, *, at: datetime) -> None:
    """Disable a user, end all tokens and revoke all keys; what is ended already stays as it is."""
    await connection.execute(
        update(User)
        .where(User.id == user_id, User.disabled_at.is_(None))
        .values(disabled_at=at, token_generation=User.token_generation + 1)
    )
    await connection.execute(
        update(ApiKey)
        .where(ApiKey.user_id == user_id, ApiKey.revoked_at.is_(None))
        .values(revoked_at=at)
    )


async def enable_user(connection: AsyncConnection, user_id: str) -> None:
    """Let a disabled user log in again. Tokens and keys from before stay ended."""
    await connection.execute(update(User).where(User.id == user_id).values(disabled_at=None))


_LISTED = select(*User.columns(ListedUser._fields)).order_by(User.created_at, User.id)
_ENABLED = select(*User.columns(StoredUser._fields)).where(User.disabled_at.is_(None))
_BY_NAME = _ENABLED.where(func.lower(User.username) == func.lower(bindparam("username")))
_BY_ID = _ENABLED.where(User.id == bindparam("user_id"))


# Invites: the operator makes them, a registration spends one.


class StoredInvite(NamedTuple):
    """An invite without its code. `used_by` is the name of the user it was spent for."""

    id: str
    note: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    used_at: datetime | None
    used_by: str | None


async def insert_invite(
    connection: AsyncConnection, *, invite: StoredInvite, code_sha256: str
) -> None:
    """Store an invite; only the owner of the tables can."""
    await connection.execute(insert(Invite), {**invite._asdict(), "code_sha256": code_sha256})


async def list_invites(connection: AsyncConnection) -> Sequence[StoredInvite]:
    """Return all invites, the newest first."""
    found = await connection.execute(_INVITES.order_by(Invite.created_at.desc(), Invite.id.desc()))
    return [StoredInvite._make(row) for row in found]


async def revoke_invite(
    connection: AsyncConnection, invite_id: str, *, at: datetime
) -> StoredInvite | None:
    """Revoke an invite and return it; None for an unknown one. A spent one stays as it is."""
    await connection.execute(
        update(Invite)
        .where(Invite.id == invite_id, Invite.revoked_at.is_(None), Invite.used_at.is_(None))
        .values(revoked_at=at)
    )
    row = (await connection.execute(_INVITES.where(Invite.id == invite_id))).first()
    return None if row is None else StoredInvite._make(row)


async def is_good_invite(connection: AsyncConnection, code_sha256: str, *, at: datetime) -> bool:
    """Tell whether an invite may be spent at `at`."""
    good = select(Invite.id).where(*_good_invite(code_sha256, at))
    return await connection.scalar(good) is not None


async def spend_invite(
    connection: AsyncConnection, code_sha256: str, *, user_id: str, at: datetime
) -> bool:
    """Spend an invite for a user; False where it may not be spent, for one of two at once too."""
    spent = update(Invite).where(*_good_invite(code_sha256, at)).returning(Invite.id)
    return await connection.scalar(spent.values(used_at=at, used_by=user_id)) is not None


def _good_invite(code_sha256: str, at: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        Invite.code_sha256 == code_sha256,
        Invite.expires_at > at,
        Invite.revoked_at.is_(None),
        Invite.used_at.is_(None),
    )


_INVITES = select(*Invite.columns(StoredInvite._fields[:-1]), User.username).join(
    User, User.id == Invite.used_by, isouter=True
)
