"""Debates and their event logs.

Functions that take a user have the owner in the WHERE clause; those that take only a `key` are for
callers that have found the run by one of the former.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import and_, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import DebateEvaluation, DebateEvent, DebateRun
from backend.repositories.pages import (
    ALL,
    NumberedWindow,
    Page,
    Window,
    find_own,
    in_order,
)
from theatre.engine.canonical_json import JsonObject, canonical_line


class DebateRunView(NamedTuple):
    """What is shown of a run; the columns of the same names."""

    id: str
    debate_id: str
    run_id: str
    evaluation_mode: str
    artefact_sha256: str
    head_hash: str
    events: int
    turns: int
    is_closed: bool
    version: int
    created_at: datetime
    updated_at: datetime


class StoredEvaluation(NamedTuple):
    """What one evaluator said of one artefact: the canonical document and its hash."""

    artefact_sha256: str
    evaluator: str
    sha256: str
    document: bytes
    created_at: datetime


_SHOWN = select(*DebateRun.columns(DebateRunView._fields))


async def insert_run(connection: AsyncConnection, **columns: Any) -> bool:  # noqa: ANN401 - columns
    """Store a run; False where its user has that run of that debate already."""
    statement = insert_or_leave(DebateRun).values(columns).on_conflict_do_nothing()
    return (await connection.execute(statement.returning(DebateRun.id))).first() is not None


async def find_run_by_name(
    connection: AsyncConnection, *, user_id: str, debate_id: str, run_id: str
) -> DebateRunView:
    """Return a user's run of a debate that there is."""
    named = and_(DebateRun.debate_id == debate_id, DebateRun.run_id == run_id)
    query = _SHOWN.where(DebateRun.user_id == user_id, named)
    return DebateRunView._make((await connection.execute(query)).one())


async def find_run(connection: AsyncConnection, key: str, *, user_id: str) -> DebateRunView | None:
    """Return a user's run; None where it is not theirs."""
    query = _SHOWN.where(DebateRun.id == key, DebateRun.user_id == user_id)
    row = (await connection.execute(query)).first()
    return None if row is None else DebateRunView._make(row)


async def lock_run(connection: AsyncConnection, key: str, *, user_id: str) -> DebateRunView | None:
    """Return a user's run, locked until the transaction ends; None where it is not theirs."""
    query = _SHOWN.where(DebateRun.id == key, DebateRun.user_id == user_id)
    row = (await connection.execute(query.with_for_update(key_share=True))).first()
    return None if row is None else DebateRunView._make(row)


async def find_runs(
    connection: AsyncConnection, window: Window, *, user_id: str, **wanted: str | None
) -> Page[DebateRunView]:
    """Return a page of a user's runs, the newest first; `wanted` as `find_own`."""
    return await find_own(
        connection, DebateRun, DebateRunView._make, _SHOWN, window, user_id=user_id, wanted=wanted
    )


async def find_submitted_bytes(connection: AsyncConnection, key: str) -> bytes | None:
    """Return the bytes of an artefact that was submitted whole; None for a run that goes on."""
    query = select(DebateRun.document).where(DebateRun.id == key)
    return (await connection.execute(query)).scalar_one()


async def grow_run(connection: AsyncConnection, key: str, **columns: Any) -> None:  # noqa: ANN401 - columns
    """Update a run that the caller has locked after new events."""
    await connection.execute(update(DebateRun).where(DebateRun.id == key).values(columns))


async def add_entries(connection: AsyncConnection, key: str, entries: Sequence[JsonObject]) -> None:
    """Store further entries of a run's chain."""
    rows = [
        {
            "debate_run_id": key,
            "seq": cast("int", entry["seq"]),
            "event_type": entry["event_type"],
            "entry_hash": entry["entry_hash"],
            "entry": canonical_line(entry),
        }
        for entry in entries
    ]
    await connection.execute(insert(DebateEvent), rows)


async def find_entry_lines(
    connection: AsyncConnection, key: str, window: NumberedWindow = ALL
) -> Sequence[bytes]:
    """Return a run's entries in order, each as its canonical line."""
    query = select(DebateEvent.entry).where(DebateEvent.debate_run_id == key)
    found = await connection.execute(in_order(query, window, DebateEvent.seq))
    return list(found.scalars())


async def store_evaluations(
    connection: AsyncConnection, key: str, evaluations: Sequence[StoredEvaluation]
) -> None:
    """Store evaluations; existing ones stay."""
    rows = [{"debate_run_id": key, **one._asdict()} for one in evaluations]
    statement = insert_or_leave(DebateEvaluation).on_conflict_do_nothing()
    await connection.execute(statement, rows)


async def find_evaluations(
    connection: AsyncConnection, key: str, artefact_sha256: str
) -> Sequence[StoredEvaluation]:
    """Return what evaluators said of a run as this artefact, by their names, the oldest first."""
    table = DebateEvaluation
    query = select(*table.columns(StoredEvaluation._fields)).where(
        table.debate_run_id == key, table.artefact_sha256 == artefact_sha256
    )
    found = await connection.execute(
        query.order_by(table.evaluator, table.created_at, table.sha256)
    )
    return [StoredEvaluation._make(row) for row in found]
