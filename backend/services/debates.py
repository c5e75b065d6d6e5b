"""Debates: submitted, extended event by event, shown as of any event.

Stored content never changes: a run is its event log, and the log only grows (docs/debate.md,
"History"; docs/design/service.md, "Debates in the service").
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models.base import new_id
from backend.errors import DebateRefusedError, RequestRefusedError, RequestViolation
from backend.repositories.debates import (
    DebateRunView,
    StoredEvaluation,
    add_entries,
    find_entry_lines,
    find_evaluations,
    find_run,
    find_run_by_name,
    find_submitted_bytes,
    grow_run,
    insert_run,
    lock_run,
    store_evaluations,
)
from backend.repositories.pages import NumberedWindow, Page
from backend.schemas.debates import EventRequest
from theatre.debate.errors import DebateError, InvalidDebateError
from theatre.debate.evaluators import evaluate
from theatre.debate.models import Action
from theatre.debate.runner import Extension, document_as_of, extend_log, open_run_log
from theatre.debate.validation import read_debate
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object, sha256_hex
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import without_values

_T = TypeVar("_T")


async def submit_debate(
    connection: AsyncConnection, data: bytes, *, goes_on: bool, user_id: str, clock: Clock
) -> tuple[DebateRunView, bool]:
    """Store a run by its artefact; return it, and whether it is new.

    The same bytes again are the same run. Raises DebateRefusedError for what is no artefact, and
    RequestRefusedError where this user has another artefact under the same ids.
    """
    now = clock()
    at = format_rfc3339(now)
    run = await asyncio.to_thread(
        _translate_errors, lambda: open_run_log(data, at=at, goes_on=goes_on)
    )
    debate = run.artefact.debate
    key = new_id(now)
    is_new = await insert_run(
        connection,
        id=key,
        user_id=user_id,
        debate_id=debate.debate_id,
        run_id=debate.run_id,
        evaluation_mode=debate.evaluation_mode,
        document=None if goes_on else data,
        created_at=now,
        updated_at=now,
        **_state_of(run, known=0),
    )
    if is_new:
        await add_entries(connection, key, run.entries)
    view = await find_run_by_name(
        connection, user_id=user_id, debate_id=debate.debate_id, run_id=debate.run_id
    )
    if view.artefact_sha256 != run.artefact.sha256:
        raise RequestRefusedError(
            "debate-exists",
            "expected a new run, or the same bytes again, got another artefact under these ids: "
            "what is stored is never changed; a run that is still open takes further events",
        )
    return view, is_new


async def append_events(
    connection: AsyncConnection,
    key: str,
    events: Sequence[EventRequest],
    *,
    user_id: str,
    versions: frozenset[int] | None,
    clock: Clock,
) -> DebateRunView:
    """Append to a user's run, all or nothing, and return it.

    Raises NotFoundError, RequestRefusedError for a version that is not in `versions` and for a run
    that is closed, and DebateRefusedError for events that do not fit.
    """
    view = await lock_run(connection, key, user_id=user_id)
    if view is None:
        raise _not_found(key)
    if versions is not None and view.version not in versions:
        raise RequestRefusedError(
            "precondition-failed", "the run changed since the version that If-Match names"
        )
    if view.is_closed:
        raise RequestRefusedError(
            "debate-closed", "the run is closed: it accepts no further events"
        )
    lines, now = await find_entry_lines(connection, key), clock()
    at = format_rfc3339(now)
    new = [AuditEvent(event_type=one.event_type, at=at, detail=one.detail) for one in events]
    run = await asyncio.to_thread(_translate_errors, lambda: extend_log(_entries(lines), new))
    await add_entries(connection, key, run.entries)
    await grow_run(connection, key, updated_at=now, **_state_of(run, known=len(lines)))
    return await read_run(connection, key, user_id=user_id)


async def read_run(connection: AsyncConnection, key: str, *, user_id: str) -> DebateRunView:
    """Return a user's run; NotFoundError where it is not theirs."""
    view = await find_run(connection, key, user_id=user_id)
    if view is None:
        raise _not_found(key)
    return view


async def read_artefact(
    connection: AsyncConnection, key: str, *, user_id: str, events: int | None
) -> bytes:
    """Return a user's run as it was after its first `events`, or as it is now.

    Now, one that was submitted whole is the very bytes that came. Raises NotFoundError, also where
    there are not so many events.
    """
    view = await read_run(connection, key, user_id=user_id)
    last = view.events if events is None else events
    if last > view.events:
        raise NotFoundError(f"expected at most {view.events} events, got {last}")
    if last == view.events:
        submitted = await find_submitted_bytes(connection, key)
        if submitted is not None:
            return submitted
    lines = await find_entry_lines(connection, key, NumberedWindow(limit=last))
    return await asyncio.to_thread(lambda: document_as_of(_entries(lines), last))


async def read_entries(
    connection: AsyncConnection, key: str, window: NumberedWindow, *, user_id: str
) -> Page[bytes]:
    """Return a page of a user's log, entry by canonical entry.

    NotFoundError where it is not theirs.
    """
    view = await read_run(connection, key, user_id=user_id)
    return Page(await find_entry_lines(connection, key, window), view.events)


def _state_of(run: Extension, *, known: int) -> dict[str, object]:
    return {
        "artefact_sha256": run.artefact.sha256,
        "head_hash": run.entries[-1]["entry_hash"],
        "events": known + len(run.entries),
        "turns": len(run.artefact.debate.turns),
        "is_closed": run.is_closed,
    }


def _entries(lines: Sequence[bytes]) -> list[JsonObject]:
    return [parse_object(line) for line in lines]


def _translate_errors(work: Callable[[], _T]) -> _T:
    """Do `work` on a debate; raise its errors as DebateRefusedError, for the client."""
    try:
        return work()
    except InvalidDebateError as error:
        raise DebateRefusedError(
            [RequestViolation(one.pointer, one.code, _redact(one.detail)) for one in error.findings]
        ) from None
    except DebateError as error:
        raise DebateRefusedError([RequestViolation("", error.code, _redact(str(error)))]) from None


def _redact(detail: str) -> str:
    """Return what was expected, without the values, which the client has."""
    return without_values(detail).partition(", got ")[0]


def _not_found(key: str) -> NotFoundError:
    return NotFoundError(f"expected a run of a debate of this user, got {key}")


# Evaluators over stored debates. Their results are stored apart from the debate, never in it.


async def run_evaluators(
    connection: AsyncConnection,
    key: str,
    names: Sequence[str],
    *,
    labels: Mapping[str, Action],
    user_id: str,
    clock: Clock,
) -> Sequence[StoredEvaluation]:
    """Evaluate a user's run as it is now, keep what comes out, and return it; NotFoundError.

    `labels` go to the evaluator `raudit` alone, as in `theatre.debate.evaluators.evaluate`.
    """
    data = await read_artefact(connection, key, user_id=user_id, events=None)
    evaluations = await asyncio.to_thread(_evaluate, data, names, labels, clock())
    await store_evaluations(connection, key, evaluations)
    return evaluations


async def read_evaluations(
    connection: AsyncConnection, key: str, *, user_id: str, artefact_sha256: str | None
) -> Sequence[StoredEvaluation]:
    """Return what evaluators said of a user's run as it is now, or as an earlier artefact.

    NotFoundError where it is not theirs.
    """
    view = await read_run(connection, key, user_id=user_id)
    return await find_evaluations(connection, key, artefact_sha256 or view.artefact_sha256)


def _evaluate(
    data: bytes, names: Sequence[str], labels: Mapping[str, Action], now: datetime
) -> list[StoredEvaluation]:
    artefact = read_debate(data)
    documents = map(canonical_bytes, evaluate(artefact, names, labels))
    return [
        StoredEvaluation(
            artefact_sha256=artefact.sha256,
            evaluator=name,
            sha256=sha256_hex(document),
            document=document,
            created_at=now,
        )
        for name, document in zip(names, documents, strict=True)
    ]
