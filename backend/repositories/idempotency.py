"""Idempotency keys: requests and their answers, written in the transaction of the effect."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from sqlalchemy import ColumnElement, String, column, delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ApiKey, Dataset, IdempotencyKey

# Retention: deletes rows that are no longer needed.


async def delete_keys(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete API keys that expired or were revoked before; return how many."""
    gone = or_(ApiKey.expires_at <= before, ApiKey.revoked_at <= before)
    return (await connection.execute(delete(ApiKey).where(gone))).rowcount


async def delete_uploads(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete rows of older uploads that no template of a theatre names; return how many."""
    old = (Dataset.created_at <= before, Dataset.sha256.not_in(_NAMED))
    return (await connection.execute(delete(Dataset).where(*old))).rowcount


async def find_referenced_datasets(connection: AsyncConnection) -> frozenset[str]:
    """Return the SHA-256 of every dataset that a theatre names or a user uploaded."""
    found = await connection.execute(_NAMED.union(select(Dataset.sha256)))
    return frozenset(found.scalars())


# What drafts name as well as what was committed (a template comes with a theatre, and stays), and
# what a rehearsal ran on or was answered with.
_NAMED = select(
    text("""
        SELECT DISTINCT value AS sha256
        FROM theatre_templates, jsonb_each_text(template_json -> 'dataset_hashes')
        UNION
        SELECT rehearsal_sha256 FROM theatres WHERE rehearsal_sha256 IS NOT NULL
        UNION
        SELECT answers_sha256 FROM theatres WHERE answers_sha256 IS NOT NULL
    """)
    .columns(column("sha256", String))
    .subquery("named")
    .c.sha256
)


RETENTION = timedelta(hours=48)
_Answered = tuple[str, str, str, int, dict[str, str], bytes]
"""A row with its answer, which a CHECK makes complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """One request with a key of its user."""

    user_id: str
    key: str
    method: str
    path: str
    body_sha256: str


class StoredAnswer(NamedTuple):
    """A stored answer, and the request that it belongs to."""

    method: str
    path: str
    body_sha256: str
    status: int
    headers: dict[str, str]
    answer: bytes

    def belongs_to(self, request: KeyedRequest) -> bool:
        """Tell whether it answers this request."""
        first = (self.method, self.path, self.body_sha256)
        return first == (request.method, request.path, request.body_sha256)


async def claim(connection: AsyncConnection, request: KeyedRequest, *, at: datetime) -> bool:
    """Claim a key for this transaction; False where an earlier request has claimed it.

    Waits for another transaction that has claimed it, as long as `lock_timeout` allows.
    """
    # An expired key may be used again.
    await connection.execute(
        delete(IdempotencyKey).where(*_of(request), IdempotencyKey.created_at <= at - RETENTION)
    )
    statement = insert_or_leave(IdempotencyKey).values(
        user_id=request.user_id,
        key=request.key,
        method=request.method,
        path=request.path,
        body_sha256=request.body_sha256,
        created_at=at,
    )
    # The insert waits for a concurrent claim of the same key: only one request has an effect.
    taken = await connection.execute(
        statement.on_conflict_do_nothing().returning(IdempotencyKey.key)
    )
    return taken.first() is not None


async def find_answer(connection: AsyncConnection, request: KeyedRequest) -> StoredAnswer | None:
    """Return the stored answer under the key of a request; None where there is none."""
    found = await connection.execute(
        select(
            IdempotencyKey.method,
            IdempotencyKey.path,
            IdempotencyKey.body_sha256,
            IdempotencyKey.status,
            IdempotencyKey.headers,
            IdempotencyKey.answer,
        ).where(*_of(request), IdempotencyKey.status.is_not(None))
    )
    row = found.first()
    return None if row is None else StoredAnswer(*cast("_Answered", row))


async def store_answer(
    connection: AsyncConnection,
    request: KeyedRequest,
    *,
    status: int,
    headers: dict[str, str],
    answer: bytes,
) -> None:
    """Store the answer in the row that this transaction has claimed."""
    await connection.execute(
        update(IdempotencyKey)
        .where(*_of(request))
        .values(status=status, headers=headers, answer=answer)
    )


async def forget(connection: AsyncConnection, *, at: datetime) -> int:
    """Delete what is older than `RETENTION`; return how many rows that were."""
    gone = await connection.execute(
        delete(IdempotencyKey).where(IdempotencyKey.created_at <= at - RETENTION)
    )
    return gone.rowcount


def _of(request: KeyedRequest) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return (IdempotencyKey.user_id == request.user_id, IdempotencyKey.key == request.key)
