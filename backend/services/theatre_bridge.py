"""One run of one theatre, from its row to its end: what the engine is given, and what is kept.

Order of effects (design §3): the bundle is sealed first; certificate and state are one transaction;
the export is written before the theatre is ARCHIVED. Whatever a crash leaves, the same function
goes on from it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.repositories.certificates import store_certificate
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import StoredTheatre
from backend.services.construct_access import check_all_reachable
from backend.services.resources import TheatreResources
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import InvalidTransitionError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import RatingDesk, ReplayEngine, RunSettings, Surroundings
from theatre.engine.rlmf_export import RlmfExport
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import product_template
from theatre.engine.theatre import Theatre
from theatre.files.durable import sync_folder
from theatre.oracles.input_sanitiser import TextSanitiser
from theatre.oracles.retry import retrying

EXPORT = "rlmf_export.jsonl"
CERTIFIED = "certified"
WAITING = "waiting_hitl"
_BEFORE_THE_LAST_CALL = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE})
_STATUS_OF_OUTCOME = {"failed": "failed", "void": "cancelled"}


class RunEnd(NamedTuple):
    """Where a run came to: a status of the row, and the step that waits for people, if one does."""

    status: str
    pending_step: str | None = None
    seconds_left: float | None = None
    """Until the committed time limit of that step, if it has one."""


async def run_theatre(
    engine: AsyncEngine, stored: StoredTheatre, resources: TheatreResources
) -> RunEnd:
    """Run a claimed theatre as far as it goes, and archive it.

    Raises what `ReplayEngine` and `ConstructAccess` raise; the state says how far it came.
    """
    theatre = stored.value()
    journal = journal_of(engine, stored, resources)
    if theatre.state not in {TheatreState.RESOLVED, TheatreState.ARCHIVED}:
        theatre = await _replayed(theatre, journal, stored, resources)
    if theatre.state is TheatreState.SETTLING:
        desk = await RatingDesk.of(theatre, journal, resources.clock)
        return RunEnd(WAITING, desk.rating.step_id, _seconds_left(desk, resources))
    outcome = await _outcome(journal)
    if outcome == CERTIFIED and theatre.state is TheatreState.RESOLVED:
        await _archive(theatre, journal, resources)
    return RunEnd(_STATUS_OF_OUTCOME.get(outcome, "succeeded"))


def _seconds_left(desk: RatingDesk, resources: TheatreResources) -> float | None:
    limit = desk.rubric.timeout_seconds
    if limit is None:
        return None
    return limit - (resources.clock() - desk.rubric.opened_at).total_seconds()


async def end_as(
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    *,
    outcome: JsonObject,
) -> None:
    """Resolve a theatre that is ACTIVE or SETTLING with `outcome`, without a certificate."""
    theatre = stored.value()
    journal = journal_of(engine, stored, resources)
    if theatre.state is TheatreState.ACTIVE:
        reason = {"reason": outcome["outcome_reason"]}
        theatre, settling = theatre.settle(at=resources.clock(), detail=reason)
        await journal.note(settling)
    _, resolved = theatre.resolve(at=resources.clock(), detail=outcome)
    await journal.note(resolved)


def journal_of(
    engine: AsyncEngine, stored: StoredTheatre, resources: TheatreResources
) -> PostgresRunJournal:
    """Return the journal of a theatre; its end stores the certificate of the sealed bundle."""
    bundle = resources.folder_of(stored.id) / bundle_name(stored.id)

    async def resolved(connection: AsyncConnection, event: AuditEvent) -> None:
        if event.detail["outcome"] == CERTIFIED:
            document = await asyncio.to_thread((bundle / "certificate.json").read_bytes)
            await store_certificate(connection, parse_object(document))

    return PostgresRunJournal(
        engine, stored.id, epoch=stored.run_epoch, effects={"resolved": resolved}
    )


async def _replayed(
    theatre: Theatre,
    journal: PostgresRunJournal,
    stored: StoredTheatre,
    resources: TheatreResources,
) -> Theatre:
    template = product_template(theatre.template)
    async with resources.constructs.opened(template) as adapters:
        replay = ReplayEngine(
            theatre,
            journal,
            Surroundings(
                adapters=adapters,
                authors=resources.constructs.authors(template),
                invoke=retrying(asyncio.sleep),
                datasets=resources.data,
                scorers=resources.scorers,
                computations=resources.computations,
                sanitiser=TextSanitiser(),
                registry=resources.schemas,
                clock=resources.clock,
                sleep=asyncio.sleep,
            ),
            RunSettings(
                output_dir=resources.folder_of(stored.id),
                issuer=resources.issuer,
                certificate_run=stored.is_certificate_run is not False,
            ),
        )
        if theatre.state in _BEFORE_THE_LAST_CALL:
            await check_all_reachable(adapters)
        return await replay.run()


async def _outcome(journal: PostgresRunJournal) -> str:
    async for entry in journal.trail():
        detail = entry["detail"]
        if entry["event_type"] == "resolved" and isinstance(detail, dict):
            return str(detail["outcome"])
    raise InvalidTransitionError("expected a theatre that is resolved, got one without an outcome")


async def _archive(
    theatre: Theatre, journal: PostgresRunJournal, resources: TheatreResources
) -> None:
    """Write the export, then archive: a theatre is never ARCHIVED without one."""
    exported_at = resources.clock()
    folder = resources.folder_of(theatre.theatre_id)
    export = RlmfExport(
        folder / bundle_name(theatre.theatre_id), resources.schemas, exported_at=exported_at
    )
    await asyncio.to_thread(_write, export, folder / EXPORT)
    _, archived = theatre.archive(at=exported_at, detail=export.summary().as_document())
    await journal.note(archived)


def _write(export: RlmfExport, target: Path) -> None:
    draft = target.with_name(f".{target.name}.partial")
    try:
        with draft.open("wb") as handle:
            for line in export.lines():
                handle.write(line)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(target.parent)
