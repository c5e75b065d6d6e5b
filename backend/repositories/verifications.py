"""Verifications: asked for, claimed by a job, handed over to the theatre that they become."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import TheatreCertificate, Verification
from backend.database.models.base import MAX_ERROR
from backend.repositories.certificate_views import SHOWN, CertificateView, joined_with_run
from backend.repositories.pages import Window, newest_first
from theatre.engine.canonical_json import JsonObject


class StoredVerification(NamedTuple):
    """A row; the columns of the same names. `scored`: changes that its certificate counts."""

    id: str
    user_id: str
    request: JsonObject
    min_replays: int
    phase: str
    job_id: int | None
    lost_workers: int
    records: int
    waits_until: datetime | None
    error_code: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    scored: int | None


_COLUMNS = Verification.columns(StoredVerification._fields[:-1])


async def insert_verification(
    connection: AsyncConnection,
    *,
    verification_id: str,
    user_id: str,
    request: JsonObject,
    min_replays: int,
    at: datetime,
) -> None:
    """Store a request; the caller queues its job."""
    row = {
        "id": verification_id,
        "user_id": user_id,
        "request": request,
        "min_replays": min_replays,
        "phase": "queued",
        "created_at": at,
        "updated_at": at,
    }
    await connection.execute(insert(Verification), row)


async def find_verification(
    connection: AsyncConnection, verification_id: str, *, user_id: str
) -> StoredVerification | None:
    """Return a verification of a user; None where it is not theirs."""
    own = (Verification.id == verification_id, Verification.user_id == user_id)
    certificate = TheatreCertificate.theatre_id == Verification.id
    query = select(*_COLUMNS, TheatreCertificate.replay_count).outerjoin(
        TheatreCertificate, certificate
    )
    row = (await connection.execute(query.where(*own))).first()
    return None if row is None else StoredVerification._make(row)


async def claim_ingestion(
    connection: AsyncConnection, verification_id: str, *, job_id: int, at: datetime
) -> StoredVerification | None:
    """Take up the verification that waits for this job; None where none does."""
    claimed = (
        update(Verification)
        .where(_of_job(verification_id, job_id, "queued"))
        .values(phase="ingesting", waits_until=None, error_code=None, error=None, updated_at=at)
        .returning(*_COLUMNS)
    )
    row = (await connection.execute(claimed)).first()
    return None if row is None else StoredVerification._make((*row, None))


async def change_ingestion(
    connection: AsyncConnection,
    verification_id: str,
    *,
    job_id: int,
    **changes: Any,  # noqa: ANN401 - columns
) -> bool:
    """Change the verification of this job; False where another job has it now."""
    if changes.get("error") is not None:
        changes["error"] = str(changes["error"])[:MAX_ERROR].replace("\0", "\ufffd")
    changed = (
        update(Verification).where(_of_job(verification_id, job_id, "ingesting")).values(changes)
    )
    return (await connection.execute(changed)).rowcount == 1


async def end_ingestion(
    connection: AsyncConnection,
    verification_id: str,
    *,
    user_id: str,
    error_code: str,
    error: str,
    at: datetime,
) -> bool:
    """End a user's verification that is not handed over; False where it is, or has ended.

    The job that has it finds out at its next write: the phase is no longer `ingesting`.
    """
    own = (Verification.id == verification_id, Verification.user_id == user_id)
    ended = (
        update(Verification)
        .where(*own, Verification.phase.in_(("queued", "ingesting")))
        .values(phase="failed", waits_until=None, error_code=error_code, error=error, updated_at=at)
    )
    return (await connection.execute(ended)).rowcount == 1


async def is_over(connection: AsyncConnection, verification_id: str) -> bool:
    """Tell whether the reading of ground truth for a verification is over."""
    over = Verification.phase.in_(("handed_over", "failed"))
    query = select(Verification.id).where(Verification.id == verification_id, over)
    return (await connection.execute(query)).first() is not None


async def lock_ingestion(
    connection: AsyncConnection, verification_id: str, *, job_id: int, phase: str
) -> bool:
    """Lock what is in `phase` for this job; tell whether it is."""
    query = select(Verification.id).where(_of_job(verification_id, job_id, phase))
    return (await connection.execute(query.with_for_update())).first() is not None


async def find_verified_certificates(
    connection: AsyncConnection,
    window: Window,
    *,
    construct_id: str | None,
    accepted: Sequence[str],
) -> Sequence[CertificateView]:
    """Return a page of the certificates that verifications have earned, the newest first."""
    certificate = TheatreCertificate
    every = select(*SHOWN).select_from(certificate).join(*_EARNED)
    query = joined_with_run(every).where(_of(construct_id))
    page = newest_first(query, window, certificate.issued_at, certificate.id)
    found = await connection.execute(page, {"accepted": accepted})
    return [CertificateView.of(row) for row in found]


async def count_verified(connection: AsyncConnection, *, construct_id: str | None) -> int:
    """Return how many certificates verifications have earned."""
    query = select(func.count()).select_from(TheatreCertificate).join(*_EARNED)
    return int((await connection.execute(query.where(_of(construct_id)))).scalar_one())


_EARNED = (
    Verification,
    and_(
        Verification.id == TheatreCertificate.theatre_id,
        TheatreCertificate.replay_count >= Verification.min_replays,
    ),
)


def _of(construct_id: str | None) -> ColumnElement[bool]:
    if construct_id is None:
        return literal(value=True)
    return TheatreCertificate.construct_id == construct_id


def _of_job(verification_id: str, job_id: int, phase: str) -> ColumnElement[bool]:
    return and_(
        Verification.id == verification_id,
        Verification.job_id == job_id,
        Verification.phase == phase,
    )
