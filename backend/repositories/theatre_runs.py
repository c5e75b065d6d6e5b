"""A theatre that is to be moved: held for one transaction, or claimed for a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreTemplate
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import NotFoundError, StateConflictError
from theatre.engine.models import freeze_object
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import Theatre as TheatreValue

UNFINISHED = ("queued", "running")
MAX_ERROR = 2000


class StoredTheatre(NamedTuple):
    """What moving a theatre needs of its row and of its template."""

    id: str
    user_id: str
    state: str
    run_status: str | None
    run_epoch: int
    is_certificate_run: bool | None
    cancel_requested_at: datetime | None
    receipt: bytes | None
    document: bytes

    def value(self) -> TheatreValue:
        """Return the theatre as the engine takes it; CommitmentError for a receipt that lies."""
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


async def hold_theatre(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> StoredTheatre:
    """Return a user's theatre, locked until the transaction ends.

    NotFoundError where it is not theirs, StateConflictError where somebody moves it right now.
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
    """Set what the row says of a run, in the transaction of whoever holds the theatre."""
    if changes.get("error") is not None:
        changes["error"] = str(changes["error"])[:MAX_ERROR].replace("\0", "\ufffd")
    await connection.execute(update(Theatre).where(Theatre.id == theatre_id).values(changes))


async def claim_run(
    connection: AsyncConnection, theatre_id: str, *, at: datetime
) -> StoredTheatre | None:
    """Take a queued run up, or a running one over; None where it is neither any more.

    The epoch rises: whoever ran it before can write nothing more.
    """
    claimed = (
        update(Theatre)
        .where(Theatre.id == theatre_id, Theatre.run_status.in_(UNFINISHED))
        .values(run_status="running", run_epoch=Theatre.run_epoch + 1, heartbeat_at=at, error=None)
    )
    if (await connection.execute(claimed)).rowcount != 1:
        return None
    return await stored_theatre(connection, theatre_id)


async def stored_theatre(connection: AsyncConnection, theatre_id: str) -> StoredTheatre:
    """Return a theatre that there is, whoever's it is: for whoever runs it."""
    row = (await connection.execute(_whole().where(Theatre.id == theatre_id))).one()
    return StoredTheatre._make(row)


async def stored_theatre_if_any(
    connection: AsyncConnection, theatre_id: str
) -> StoredTheatre | None:
    """Return a theatre, whoever's it is: for whoever scores it; None where there is none."""
    row = (await connection.execute(_whole().where(Theatre.id == theatre_id))).first()
    return None if row is None else StoredTheatre._make(row)


async def only_one_at_a_time(connection: AsyncConnection, theatre_id: str) -> None:
    """Wait until nobody else submits scores to a theatre, for this transaction."""
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
    """Say how a run ended or why it waits, unless another has taken it over; tell which."""
    if changes.get("error") is not None:
        changes["error"] = str(changes["error"])[:MAX_ERROR].replace("\0", "\ufffd")
    ended = (
        update(Theatre).where(Theatre.id == theatre_id, Theatre.run_epoch == epoch).values(changes)
    )
    return (await connection.execute(ended)).rowcount == 1


async def runs_in(connection: AsyncConnection, *statuses: str) -> Sequence[str]:
    """Return the theatres whose runs are in one of `statuses`, the oldest first."""
    query = select(Theatre.id).where(Theatre.run_status.in_(statuses)).order_by(Theatre.created_at)
    return list((await connection.execute(query)).scalars())


async def requeue_waiting(connection: AsyncConnection, theatre_id: str | None = None) -> None:
    """Queue what waits for people, to be looked at again: one theatre, or all of them."""
    waiting = update(Theatre).where(Theatre.run_status == "waiting_hitl")
    if theatre_id is not None:
        waiting = waiting.where(Theatre.id == theatre_id)
    await connection.execute(waiting.values(run_status="queued"))


async def cancel_wanted(connection: AsyncConnection, theatre_id: str) -> bool:
    """Tell whether the owner asked for a run to be cancelled."""
    query = select(Theatre.cancel_requested_at).where(Theatre.id == theatre_id)
    return (await connection.execute(query)).scalar_one() is not None


async def cancels_wanted(connection: AsyncConnection) -> Sequence[str]:
    """Return the theatres whose owners want their runs to be cancelled, and that still run."""
    query = select(Theatre.id).where(
        Theatre.run_status == "running", Theatre.cancel_requested_at.is_not(None)
    )
    return list((await connection.execute(query)).scalars())


def _whole() -> Select[*tuple[Any, ...]]:
    return select(
        Theatre.id,
        Theatre.user_id,
        Theatre.state,
        Theatre.run_status,
        Theatre.run_epoch,
        Theatre.is_certificate_run,
        Theatre.cancel_requested_at,
        Theatre.receipt,
        TheatreTemplate.document,
    ).join(TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256)
