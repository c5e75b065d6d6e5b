"""Theatres that are changed: locked for one transaction, or claimed for a run."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreTemplate
from backend.database.models.base import MAX_ERROR
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import NotFoundError, StateConflictError
from theatre.engine.models import freeze_object
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import DEFAULT_CLOSE_WITHIN_DAYS, NEWEST
from theatre.engine.theatre import Theatre as TheatreValue

# Who may write for a run: the holder of its epoch.


async def lock_for_writing(connection: AsyncConnection, theatre_id: str, *, epoch: int) -> str:
    """Lock a theatre's row for this transaction; return the theatre's state.

    NotFoundError where there is none, StateConflictError where another worker holds it.
    """
    query = (
        select(Theatre.state, Theatre.run_epoch)
        .where(Theatre.id == theatre_id)
        .with_for_update(key_share=True)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError(f"expected theatre {theatre_id}, got none")
    if row.run_epoch != epoch:
        raise StateConflictError(
            f"expected to hold the run of theatre {theatre_id} in epoch {epoch}, "
            f"got epoch {row.run_epoch}: another worker has taken it up"
        )
    return str(row.state)


# How many theatres are where, and what their runs came to: of all processes, from the rows.


class RunTotals(NamedTuple):
    """The theatres that agree in state, status of the run, and outcome; and their episodes."""

    state: str
    run_status: str | None
    outcome: str | None
    theatres: int
    episodes: int
    failures: int
    refusals: int


async def run_totals(connection: AsyncConnection) -> Sequence[RunTotals]:
    """Return the totals of every combination that there is."""
    return [RunTotals._make(row) for row in await connection.execute(_TOTALS)]


_ALIKE = (Theatre.state, Theatre.run_status, Theatre.outcome)
_TOTALS = select(
    *_ALIKE,
    func.count(),
    func.sum(Theatre.progress),
    func.sum(Theatre.failure_count),
    func.sum(Theatre.refused_count),
).group_by(*_ALIKE)


UNFINISHED = ("queued", "running")
_OVERDUE = text("""
    SELECT theatres.id FROM theatres
    JOIN theatre_templates AS templates ON templates.sha256 = theatres.template_sha256
    CROSS JOIN LATERAL (
        SELECT templates.template_json #> '{execution_policy,close_within_days}' AS days
    ) AS committed
    WHERE theatres.state IN ('COMMITTED', 'ACTIVE', 'SETTLING')
        AND templates.execution_path = 'replay'
        AND theatres.committed_at < CAST(:at AS timestamptz) - make_interval(
            days => CASE WHEN jsonb_typeof(days) = 'number' AND schema_version = :newest
                THEN days::int ELSE :days END
        )
    ORDER BY theatres.committed_at
""")


class StoredTheatre(NamedTuple):
    """What moving a theatre needs of its row and of its template."""

    id: str
    user_id: str
    state: str
    version: int
    run_status: str | None
    run_epoch: int
    lost_workers: int
    is_certificate_run: bool | None
    rehearsal_sha256: str | None
    answers_sha256: str | None
    cancel_requested_at: datetime | None
    created_at: datetime
    receipt: bytes | None
    document: bytes

    def value(self) -> TheatreValue:
        """Return the theatre as the engine takes it; CommitmentError for a broken receipt."""
        if self.receipt is None:
            template = freeze_object(parse_object(self.document))
            return TheatreValue(theatre_id=self.id, template=template, state=TheatreState.DRAFT)
        receipt = CommitmentReceipt.from_document(parse_object(self.receipt))
        return TheatreValue(
            theatre_id=self.id,
            template=receipt.template_snapshot,
            state=TheatreState(self.state),
            receipt=receipt,
        )


class ClaimStatus(NamedTuple):
    """The epoch of a run, its losses since it last came further, its cancellation."""

    run_epoch: int
    lost_workers: int
    cancel_requested_at: datetime | None


async def lock_theatre(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> StoredTheatre:
    """Return a user's theatre, its row locked until the transaction ends.

    NotFoundError where it is not theirs, StateConflictError where it is locked right now.
    """
    own = (Theatre.id == theatre_id, Theatre.user_id == user_id)
    locked = _whole().where(*own).with_for_update(of=Theatre, key_share=True, skip_locked=True)
    row = (await connection.execute(locked)).first()
    if row is not None:
        return StoredTheatre._make(row)
    if (await connection.execute(select(Theatre.id).where(*own))).first() is None:
        raise NotFoundError(f"expected theatre {theatre_id}, got none")
    raise StateConflictError(f"expected theatre {theatre_id} to be free, got it moved right now")


async def change_run(connection: AsyncConnection, theatre_id: str, **changes: Any) -> None:  # noqa: ANN401 - columns
    """Set what the row says of a run, in the transaction that has locked the theatre."""
    if changes.get("error") is not None:
        changes["error"] = str(changes["error"])[:MAX_ERROR].replace("\0", "\ufffd")
    await connection.execute(update(Theatre).where(Theatre.id == theatre_id).values(changes))


async def claim_run(
    connection: AsyncConnection, theatre_id: str, *, job_id: int, at: datetime
) -> StoredTheatre | None:
    """Take up the queued run that waits for this job; None where none does.

    The epoch rises: an earlier worker can write nothing more.
    """
    claimed = (
        update(Theatre)
        .where(
            Theatre.id == theatre_id, Theatre.run_job_id == job_id, Theatre.run_status == "queued"
        )
        .values(run_status="running", run_epoch=Theatre.run_epoch + 1, heartbeat_at=at, error=None)
    )
    if (await connection.execute(claimed)).rowcount != 1:
        return None
    return await read_stored_theatre(connection, theatre_id)


async def find_overdue_theatres(connection: AsyncConnection, *, at: datetime) -> Sequence[str]:
    """Return what should have been closed before `at`; `Theatre.is_open_too_long` decides."""
    values = {"at": at, "days": DEFAULT_CLOSE_WITHIN_DAYS, "newest": NEWEST}
    return [str(one) for one in (await connection.execute(_OVERDUE, values)).scalars()]


async def lock_free(connection: AsyncConnection, theatre_id: str) -> StoredTheatre | None:
    """Return a theatre, locked; None where it is locked right now."""
    query = _whole().where(Theatre.id == theatre_id)
    locked = query.with_for_update(of=Theatre, key_share=True, skip_locked=True)
    row = (await connection.execute(locked)).first()
    return None if row is None else StoredTheatre._make(row)


async def read_claim(connection: AsyncConnection, theatre_id: str) -> ClaimStatus:
    """Return the state of a run as its worker needs it."""
    query = select(*Theatre.columns(ClaimStatus._fields))
    row = (await connection.execute(query.where(Theatre.id == theatre_id))).one()
    return ClaimStatus._make(row)


async def lock_claimed(connection: AsyncConnection, theatre_id: str, *, epoch: int) -> bool:
    """Lock a theatre that is run in this epoch; say whether it is."""
    return await _lock(connection, theatre_id, "running", Theatre.run_epoch == epoch)


async def lock_queued(connection: AsyncConnection, theatre_id: str, *, job_id: int) -> bool:
    """Lock a theatre whose run waits for this job; say whether it does."""
    return await _lock(connection, theatre_id, "queued", Theatre.run_job_id == job_id)


async def lock_waiting(connection: AsyncConnection, theatre_id: str) -> bool:
    """Lock a theatre that waits for people; say whether it does."""
    return await _lock(connection, theatre_id, "waiting_hitl")


async def read_stored_theatre(connection: AsyncConnection, theatre_id: str) -> StoredTheatre:
    """Return an existing theatre of any user, for its worker."""
    row = (await connection.execute(_whole().where(Theatre.id == theatre_id))).one()
    return StoredTheatre._make(row)


async def find_stored_theatre(connection: AsyncConnection, theatre_id: str) -> StoredTheatre | None:
    """Return a theatre of any user, for a scorer; None where there is none."""
    row = (await connection.execute(_whole().where(Theatre.id == theatre_id))).first()
    return None if row is None else StoredTheatre._make(row)


async def lock_scores(connection: AsyncConnection, theatre_id: str) -> None:
    """Lock the submission of scores to a theatre, for this transaction."""
    await connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:theatre_id, 0))"),
        {"theatre_id": theatre_id},
    )


async def end_claim(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    epoch: int,
    **changes: Any,  # noqa: ANN401 - columns
) -> bool:
    """Store how a run ended or why it waits; False where another worker has taken it over."""
    if changes.get("error") is not None:
        changes["error"] = str(changes["error"])[:MAX_ERROR].replace("\0", "\ufffd")
    ended = (
        update(Theatre).where(Theatre.id == theatre_id, Theatre.run_epoch == epoch).values(changes)
    )
    return (await connection.execute(ended)).rowcount == 1


async def _lock(
    connection: AsyncConnection, theatre_id: str, status: str, *conditions: ColumnElement[bool]
) -> bool:
    query = select(Theatre.id).where(
        Theatre.id == theatre_id, Theatre.run_status == status, *conditions
    )
    held = await connection.execute(query.with_for_update(key_share=True))
    return held.first() is not None


def _whole() -> Select[*tuple[Any, ...]]:
    columns = Theatre.columns(StoredTheatre._fields[:-1])
    return select(*columns, TheatreTemplate.document).join(
        TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256
    )


async def find_ended_runs(
    connection: AsyncConnection, theatre_ids: Collection[str]
) -> frozenset[str]:
    """Return which of these theatres have a run that is over."""
    query = select(Theatre.id).where(
        Theatre.id.in_(theatre_ids), Theatre.run_status.in_(("succeeded", "failed", "cancelled"))
    )
    return frozenset((await connection.execute(query)).scalars())


# Human scores, copied from the chain.


_COPY = text("""
    INSERT INTO human_scores (
        theatre_id, step_id, identity, episode_seq, user_id, score, comment, audit_seq, created_at
    )
    SELECT e.theatre_id, e.detail_json->>'step_id', lower(u.username), s.seq, u.id,
        (e.detail_json->>'score')::double precision, e.detail_json->>'comment', e.seq, e.created_at
    FROM theatre_audit_events e
    JOIN theatre_episode_scores s
        ON s.theatre_id = e.theatre_id AND s.episode_id = e.detail_json->>'episode_id'
    JOIN users u ON lower(u.username) = lower(e.detail_json->>'scorer')
    WHERE e.theatre_id = CAST(:theatre_id AS uuid) AND e.event_type = 'human_score'
    ON CONFLICT DO NOTHING
""")


async def copy_scores(connection: AsyncConnection, theatre_id: str) -> None:
    """Copy from the chain what people gave in a theatre and what has no row yet.

    Names of users differ by more than case.
    """
    await connection.execute(_COPY, {"theatre_id": theatre_id})
