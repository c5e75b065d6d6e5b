"""What rows say of the log, for fsck: checkpoints, keys, and each theatre with what it queued."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased

from backend.database.models import (
    LogCheckpoint,
    LoggedEntry,
    QueuedEntry,
    Theatre,
    TheatreCertificate,
    TheatreCoin,
    TrustDocument,
)

_CLOSINGS = ("certificate/v1", "void/v1")


class LoggedTheatre(NamedTuple):
    """A theatre that was committed, what its run queued for the log, and where that is logged.

    `commitment` and `closing` are types of queued entries, None where none was queued;
    `committed_at` and `closed_at` are places in the log.
    """

    id: str
    receipt: bytes
    coin: bytes | None
    is_certificate_run: bool | None
    total_episodes: int
    outcome: str | None
    document: bytes | None
    sigstore: bytes | None
    statement_sha256: str | None
    commitment: str | None
    committed_at: int | None
    closing: str | None
    closed_at: int | None


async def stream_logged_theatres(connection: AsyncConnection) -> AsyncIterator[LoggedTheatre]:
    """Yield every committed theatre, in the order of its id."""
    commitment, closing = aliased(QueuedEntry), aliased(QueuedEntry)
    committed, closed = aliased(LoggedEntry), aliased(LoggedEntry)
    of_theatre = commitment.theatre_id == Theatre.id, closing.theatre_id == Theatre.id
    query = (
        select(
            Theatre.id,
            Theatre.receipt,
            TheatreCoin.coin,
            Theatre.is_certificate_run,
            Theatre.total_episodes,
            Theatre.outcome,
            TheatreCertificate.document,
            TheatreCertificate.sigstore,
            TheatreCertificate.statement_sha256,
            commitment.type,
            committed.log_index,
            closing.type,
            closed.log_index,
        )
        .outerjoin(TheatreCoin, TheatreCoin.theatre_id == Theatre.id)
        .outerjoin(TheatreCertificate, TheatreCertificate.theatre_id == Theatre.id)
        .outerjoin(commitment, and_(of_theatre[0], commitment.type == "commitment/v1"))
        .outerjoin(committed, committed.queue_id == commitment.id)
        .outerjoin(closing, and_(of_theatre[1], closing.type.in_(_CLOSINGS)))
        .outerjoin(closed, closed.queue_id == closing.id)
        .where(Theatre.receipt.is_not(None))
        .order_by(Theatre.id)
    )
    async with connection.stream(query, execution_options={"yield_per": 100}) as rows:
        async for row in rows:
            yield LoggedTheatre._make((str(row[0]), *row[1:]))


async def find_checkpoints(connection: AsyncConnection) -> Sequence[bytes]:
    """Return every signed checkpoint, the oldest first."""
    query = select(LogCheckpoint.checkpoint).order_by(LogCheckpoint.seq)
    return (await connection.execute(query)).scalars().all()


async def find_trust_documents(connection: AsyncConnection) -> Sequence[bytes]:
    """Return every `trust.json` that a process began with, the oldest first."""
    query = select(TrustDocument.document).order_by(TrustDocument.seq)
    return (await connection.execute(query)).scalars().all()
