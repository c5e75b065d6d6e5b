"""Construct ids that users claim, and what the operator decides about the claims (docs/adr/0175).

Whose an id is follows from the decisions alone, which only the operator's commands can write. A
claim without a decision lapses: its row stays, but any other user may claim the id.
"""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import String, bindparam, case, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as insert_or_take
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ConstructDecision, QueuedEntry, RegisteredConstruct
from backend.repositories.counted_runs import OWNER, if_confirmed
from backend.repositories.pages import Page, Place, Window, count_rows, newest_first
from theatre.engine.canonical_json import sha256_hex

CLAIM_TERM = timedelta(days=14)
"""How long a claim waits for the operator, and a rejected user for another claim."""
Decision = Literal["confirmed", "rejected", "released"]
_PLACE = (
    RegisteredConstruct.created_at,
    func.encode(
        func.sha256(func.convert_to(RegisteredConstruct.construct_id, "UTF8")), "hex", type_=String
    ),
)


class StoredConstruct(NamedTuple):
    """A claim as its user sees it; `confirmed_at` is null unless the id is the user's."""

    construct_id: str
    author: str | None
    created_at: datetime
    confirmed_at: datetime | None

    @property
    def lapses_at(self) -> datetime | None:
        """Return when any user may claim the id; None for a confirmed one."""
        return None if self.confirmed_at is not None else self.created_at + CLAIM_TERM

    @property
    def place(self) -> Place:
        """Return its place in a list: ids may be long, so their hash breaks ties."""
        return Place(self.created_at, sha256_hex(self.construct_id.encode()))


async def lock_construct(connection: AsyncConnection, construct_id: str) -> None:
    """Lock claims of a construct id and decisions about it, for this transaction."""
    await connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:construct_id, 1))"),
        {"construct_id": construct_id},
    )


async def find_owner(connection: AsyncConnection, construct_id: str) -> str | None:
    """Return the id of the user whom the operator has confirmed; None where the id has no owner."""
    owner: str | None = await connection.scalar(_OWNER, {"construct_id": construct_id})
    return owner


async def claim(connection: AsyncConnection, construct: StoredConstruct, *, user_id: str) -> bool:
    """Store a claim, also over one that has lapsed; False where another waits.

    The caller must have checked that the id has no owner.
    """
    table = RegisteredConstruct
    row = {
        "construct_id": construct.construct_id,
        "user_id": user_id,
        "author": construct.author,
        "created_at": construct.created_at,
    }
    statement = insert_or_take(table).values(row)
    taken = statement.on_conflict_do_update(
        index_elements=[table.construct_id],
        set_={name: statement.excluded[name] for name in ("user_id", "author", "created_at")},
        where=table.created_at <= construct.created_at - CLAIM_TERM,
    )
    return (await connection.execute(taken.returning(table.construct_id))).first() is not None


async def find_claim(
    connection: AsyncConnection, construct_id: str, *, user_id: str
) -> StoredConstruct | None:
    """Return a user's claim of an id; None where the id is not claimed, or by another."""
    own = (RegisteredConstruct.construct_id == construct_id, RegisteredConstruct.user_id == user_id)
    row = (await connection.execute(select(*_SHOWN).where(*own))).first()
    return None if row is None else StoredConstruct._make(row)


async def find_constructs(
    connection: AsyncConnection, user_id: str, window: Window
) -> Page[StoredConstruct]:
    """Return a page of a user's claims, the newest first."""
    own = RegisteredConstruct.user_id == user_id
    found = await connection.execute(newest_first(select(*_SHOWN).where(own), window, *_PLACE))
    total = await count_rows(connection, RegisteredConstruct, own)
    return Page([StoredConstruct._make(row) for row in found], total)


async def was_rejected(
    connection: AsyncConnection, construct_id: str, *, user_id: str, after: datetime
) -> bool:
    """Tell whether the operator has rejected a user's claim of an id since `after`."""
    rejected = select(ConstructDecision.seq).where(
        ConstructDecision.construct_id == construct_id,
        ConstructDecision.user_id == user_id,
        ConstructDecision.decision == "rejected",
        ConstructDecision.decided_at > after,
    )
    return (await connection.execute(rejected.limit(1))).first() is not None


async def decide(
    connection: AsyncConnection,
    construct_id: str,
    decision: Decision,
    *,
    user_id: str,
    at: datetime,
) -> None:
    """Add a decision about a user's id, as the operator; only a confirmed one stays claimed."""
    row = {
        "construct_id": construct_id,
        "user_id": user_id,
        "decision": decision,
        "decided_at": at,
        "queue_end": select(func.coalesce(func.max(QueuedEntry.id), 0)).scalar_subquery(),
    }
    await connection.execute(insert(ConstructDecision).values(row))
    if decision != "confirmed":
        claimed = (
            RegisteredConstruct.construct_id == construct_id,
            RegisteredConstruct.user_id == user_id,
        )
        await connection.execute(delete(RegisteredConstruct).where(*claimed))


_OWNER = select(if_confirmed(OWNER, bindparam("construct_id", type_=String)))
_is_theirs = case(
    (ConstructDecision.user_id == RegisteredConstruct.user_id, ConstructDecision.decided_at)
)
_SHOWN = (
    RegisteredConstruct.construct_id,
    RegisteredConstruct.author,
    RegisteredConstruct.created_at,
    if_confirmed(_is_theirs, RegisteredConstruct.construct_id.expression),
)
