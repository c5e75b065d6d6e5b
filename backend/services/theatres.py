"""Theatres: made, read, listed and committed."""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models.base import new_id
from backend.errors import RequestRefusedError
from backend.repositories.certificate_views import find_certified_document
from backend.repositories.evidence_views import find_details, find_journal_lines, find_resolution
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.template_views import find_template_bytes
from backend.repositories.theatre_runs import (
    StoredTheatre,
    change_run,
    find_overdue_theatres,
    lock_free,
    lock_theatre,
)
from backend.repositories.theatres import (
    TheatreView,
    find_receipt,
    find_theatre_view,
    find_uploads,
    find_usage_sums,
    insert_draft,
    store_receipt,
)
from backend.services.resources import TheatreResources
from backend.services.runs.execution import end_within, journal_of
from theatre.api.qualifications import qualification_faults
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.coin import COIN_BYTES, Coin
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import (
    CommitmentError,
    InvalidTemplateError,
    InvalidTransitionError,
    NotFoundError,
    TheatreError,
)
from theatre.engine.models import EpisodeResult
from theatre.engine.replay import reasons_with_examples, with_reasons
from theatre.engine.replay.usage import tally_of
from theatre.engine.scoring.measure_policy import named_qualifications
from theatre.engine.state_machine import VALID_TRANSITIONS, TheatreState
from theatre.engine.template_validator import ValidationReport
from theatre.engine.templates import ProductTheatreTemplate, view_template
from theatre.engine.theatre import OVERDUE, Theatre
from theatre.files.datasets import verify_datasets
from theatre.oracles.endpoints import endpoints
from theatre.scorers import scorers_in_use
from theatre.transparency.trust import Trust

# Ground truth is read between two statements of a commitment.
_READ_AT_LEISURE = text("SET LOCAL idle_in_transaction_session_timeout = 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTemplate:
    """A template that breaks no rule, and what is doubtful in it."""

    document: JsonObject
    report: ValidationReport

    @property
    def commitment_hash(self) -> str:
        """Return what a commitment of it comes to."""
        return CommitmentProtocol.hash_template(self.document)


async def validate_template(
    document: JsonObject, found: Mapping[str, Sequence[str]], resources: TheatreResources
) -> ValidTemplate:
    """Return a template with its warnings; InvalidTemplateError lists every violation.

    `found` has the addresses of its endpoints. Raises as `ConstructAccess.check_named` and
    `require_isolated`.
    """
    report = await asyncio.to_thread(resources.require_valid, document)
    view = report.view
    if isinstance(view, ProductTheatreTemplate):
        doubts = resources.constructs.check_named(endpoints(view), found)
        await resources.constructs.require_isolated(endpoints(view))
        report = replace(report, warnings=tuple(sorted([*report.warnings, *doubts])))
    return ValidTemplate(document=document, report=report)


def find_endpoints(document: JsonObject) -> list[str]:
    """Return what a document that may be a template names as endpoints."""
    config = document.get("product_theatre_config")
    if not isinstance(config, dict):
        return []
    own = config.get("construct_endpoints")
    named = [config, *(own.values() if isinstance(own, dict) else ())]
    places = [
        one.get("adapter_endpoint" if one is config else "endpoint")
        for one in named
        if isinstance(one, dict)
    ]
    return [place for place in places if isinstance(place, str)]


async def create_theatre(
    connection: AsyncConnection,
    engine: AsyncEngine,
    template: ValidTemplate,
    *,
    user_id: str,
    resources: TheatreResources,
    theatre_id: str | None = None,
) -> TheatreView:
    """Create a DRAFT of a valid template and return it; `theatre_id` where it was fixed before."""
    now = resources.clock()
    theatre, created = Theatre.create(theatre_id or new_id(now), template.document, at=now)
    await insert_draft(
        connection,
        theatre_id=theatre.theatre_id,
        user_id=user_id,
        template=template.document,
        construct_id=construct_of(template.document),
        created_at=now,
    )
    await PostgresRunJournal(engine, theatre.theatre_id).note_within(connection, created)
    return await read_theatre(connection, theatre.theatre_id, user_id=user_id)


async def read_theatre(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> TheatreView:
    """Return a user's theatre; NotFoundError where it is not theirs."""
    view = await find_theatre_view(connection, theatre_id, user_id=user_id)
    if view is None:
        raise NotFoundError(f"expected theatre {theatre_id}, got none")
    return view


async def read_template(connection: AsyncConnection, view: TheatreView) -> JsonObject:
    """Return the template that a theatre was made of."""
    return parse_object(await find_template_bytes(connection, view.template_sha256))


HIDDEN = {"template_snapshot": "disclosure: hashes"}
"""What a public receipt hides, and why."""


async def read_receipt(
    connection: AsyncConnection, theatre_id: str, *, reader: str | None, is_hashed: bool
) -> bytes:
    """Return the canonical receipt of a committed theatre, as far as its reader may see it.

    NotFoundError before the commitment, and for what `is_hashed` where the reader may not see it.
    """
    receipt, user_id, disclosure = await find_receipt(connection, theatre_id)
    if disclosure != "hashes" or user_id == reader:
        return receipt
    if is_hashed:
        raise NotFoundError(
            "expected a receipt that shows its template, got one with disclosure: hashes, whose "
            "owner alone sees what was hashed"
        )
    hidden = dict.fromkeys(HIDDEN, None)
    return canonical_bytes({**parse_object(receipt), **hidden, "hidden": {**HIDDEN}})


async def read_ending(connection: AsyncConnection, view: TheatreView) -> JsonObject | None:
    """Return why a theatre of its reader has no certificate, with examples; None where it has."""
    resolution = await find_resolution(connection, view.id)
    if resolution is None or "reasons" not in resolution:
        return None
    reasons = cast("list[JsonObject]", resolution["reasons"])
    entries = [cast("int", reason["entry"]) for reason in reasons if reason["entry"] is not None]
    details = await find_details(connection, view.id, entries)
    seqs = [cast("int", detail["seq"]) for detail in details.values()]
    lines = await find_journal_lines(connection, view.id, seqs)
    records = {seq: EpisodeResult.from_line(line).record.document for seq, line in lines.items()}
    return {
        "statuses": resolution["statuses"],
        "reasons": reasons_with_examples([*reasons], details, records),
    }


async def read_usage(connection: AsyncConnection, view: TheatreView) -> JsonObject | None:
    """Return the `usage` of a theatre: its certificate's, or that of all that is recorded.

    None where no construct's calls are counted, and before the first.
    """
    document = await find_certified_document(connection, view.id)
    if document is not None:
        return cast("JsonObject | None", document.get("usage"))
    found = await find_usage_sums(connection, view.id)
    if found is None:
        return None
    sums, template = found
    tally = tally_of(parse_object(template), sums)
    return None if tally is None else tally.as_document()


async def commit_theatre(
    connection: AsyncConnection,
    engine: AsyncEngine,
    theatre_id: str,
    *,
    user_id: str,
    versions: frozenset[int] | None,
    expected_hash: str | None,
    resources: TheatreResources,
) -> TheatreView:
    """Commit a user's DRAFT, its ground truth verified and copied, and return it.

    Raises NotFoundError, StateConflictError, RequestRefusedError for a version that is not in
    `versions`, InvalidTransitionError, InvalidTemplateError for a rule that a newer release has,
    DatasetError, and CommitmentError for another hash than `expected_hash`.
    """
    await connection.execute(_READ_AT_LEISURE)
    stored = await lock_theatre(connection, theatre_id, user_id=user_id)
    require_version(stored, versions)
    require_state(stored, TheatreState.DRAFT, to="commit")
    theatre = stored.value()
    uploads = await find_uploads(connection, user_id)
    is_vouched = named_qualifications(theatre.template)
    trust = await resources.signatures.read_trust(connection) if is_vouched else None
    await asyncio.to_thread(_check_and_store, theatre.template, uploads, resources, trust)
    # Timestamps of a theatre must not go back, even if the clock was set back since.
    now = max(resources.clock(), stored.created_at)
    coin = Coin(secrets.token_bytes(COIN_BYTES))
    receipt = await asyncio.to_thread(_receipt, theatre, coin, resources, committed_at=now)
    if expected_hash not in (None, receipt.commitment_hash):
        raise CommitmentError(
            f"the commitment hash is {receipt.commitment_hash}, not the expected one: the template "
            "or a pin differs"
        )
    _, committed = theatre.commit(receipt)
    journal = _commit_effect(engine, receipt, coin, epoch=stored.run_epoch)
    await journal.note_within(connection, committed)
    return await read_theatre(connection, theatre_id, user_id=user_id)


def require_version(stored: StoredTheatre, versions: frozenset[int] | None) -> None:
    """Raise RequestRefusedError for a theatre in none of `versions`; None stands for any."""
    if versions is not None and stored.version not in versions:
        raise RequestRefusedError(
            "precondition-failed", "the theatre changed since the version that If-Match names"
        )


def require_state(stored: StoredTheatre, *states: TheatreState, to: str) -> None:
    """Raise InvalidTransitionError, saying what the present state allows, for another state."""
    current = TheatreState(stored.state)
    if current not in states:
        allowed = ", ".join(VALID_TRANSITIONS[current]) or "nothing, it is the end"
        raise InvalidTransitionError(
            f"cannot {to} a theatre in {current}: expected {' or '.join(states)}. It goes on to "
            f"{allowed}{_ADVICE.get(current, '')}"
        )


_ADVICE = {TheatreState.DRAFT: ": POST …/commit comes first"}


def _check_and_store(
    document: JsonObject, uploads: frozenset[str], resources: TheatreResources, trust: Trust | None
) -> None:
    """Validate once more, copy every dataset, and verify the copies. Blocks.

    A qualification that is named must be signed by a key in `trust`, the issuer's own.
    """
    view = resources.require_valid(document).view
    if not isinstance(view, ProductTheatreTemplate):
        return
    for name, path in view.product_theatre_config.data_paths().items():
        resources.data.copy_committed(path, sha256=view.dataset_hashes[name], uploads=uploads)
    verify_datasets(view, resources.data, resources.runners)
    faults = tuple(qualification_faults(document, view, resources.data, lambda: trust))
    if faults:
        raise InvalidTemplateError(f"refused is {faults[0].detail}", violations=faults)


def _receipt(
    theatre: Theatre, coin: Coin, resources: TheatreResources, *, committed_at: datetime
) -> CommitmentReceipt:
    """Return the receipt of a valid draft. Blocks."""
    document = theatre.template
    view = view_template(document)
    environment = isolation = None
    scorers = scorers_in_use(document, view, resources.scorers)
    if isinstance(view, ProductTheatreTemplate):
        environment = resources.constructs.environment_of(view)
        isolation = resources.constructs.isolation_of(view)
    return CommitmentProtocol.commit(
        theatre.theatre_id,
        document,
        coin=coin,
        scorer_pins=scorers.pins,
        scorer_kinds=scorers.kinds,
        committed_at=committed_at,
        environment=environment,
        isolation=isolation,
    )


def _commit_effect(
    engine: AsyncEngine, receipt: CommitmentReceipt, coin: Coin, *, epoch: int
) -> PostgresRunJournal:
    async def committed(connection: AsyncConnection, _: AuditEvent) -> None:
        await store_receipt(connection, receipt, coin)

    effects = {"committed": committed}
    return PostgresRunJournal(engine, receipt.theatre_id, epoch=epoch, effects=effects)


def construct_of(document: JsonObject) -> str | None:
    """Return the construct that a valid template puts to the test; None for a market."""
    view = view_template(document)
    if isinstance(view, ProductTheatreTemplate):
        return view.product_theatre_config.construct_under_test
    return None


# Theatres that are ended from outside of their run: cancelled before it, or not closed in time.
#
# The row's lock decides against a run that moves at the same moment. The worker of a run that goes
# on has an older epoch then: it stops, and can write nothing more
# (docs/design/service.md, "A theatre can be ended from outside").


_log = logging.getLogger(__name__)


async def end_unfinished(
    connection: AsyncConnection,
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    *,
    outcome: JsonObject,
) -> None:
    """Resolve a theatre that is COMMITTED, ACTIVE or SETTLING; the caller has locked its row."""
    await end_within(connection, engine, stored, resources, outcome=outcome)
    await change_run(
        connection,
        stored.id,
        run_status="cancelled",
        # A new epoch refuses the writes of a worker that has the run.
        run_epoch=stored.run_epoch + 1,
        run_job_id=None,
        pending_step=None,
        error=None,
    )


async def end_overdue(engine: AsyncEngine, resources: TheatreResources, *, at: datetime) -> int:
    """End every theatre that was not closed in time, a transaction each; return how many."""
    async with engine.connect() as connection:
        found = await find_overdue_theatres(connection, at=at)
    ended = 0
    for theatre_id in found:
        try:
            ended += await _end_overdue(engine, resources, theatre_id, at=at)
        except TheatreError as error:
            fields = {"theatre_id": theatre_id, "code": error.code}
            _log.warning("an overdue theatre cannot be ended", extra={"fields": fields})
    return ended


async def _end_overdue(
    engine: AsyncEngine, resources: TheatreResources, theatre_id: str, *, at: datetime
) -> bool:
    """End a theatre that was not closed in time; False for one that was, or moves right now."""
    async with engine.begin() as connection:
        stored = await lock_free(connection, theatre_id)
        if stored is None or not stored.value().is_open_too_long(at):
            return False
        outcome: JsonObject = {**OVERDUE}
        if stored.state != TheatreState.COMMITTED:
            # While its row is locked no worker adds to what is counted.
            outcome = await with_reasons(journal_of(engine, stored, resources), outcome)
        await end_unfinished(connection, engine, stored, resources, outcome=outcome)
        return True
