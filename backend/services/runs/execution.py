"""One run of one theatre, from its row to its end: what the engine is given, and what is kept.

Order of effects (docs/adr/0051): the bundle is sealed first; certificate and state are one
transaction; the export is written before the theatre is ARCHIVED. Whatever a crash leaves, the same
function goes on from it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.evidence_store import ObjectKind
from backend.jobs.announcements import ChangeListener
from backend.repositories.certificate_views import find_newest_environment
from backend.repositories.evidence_views import BundleArchive, find_bundle, insert_bundle
from backend.repositories.run_journal import Effect, PostgresRunJournal
from backend.repositories.theatre_runs import StoredTheatre, copy_scores
from backend.repositories.theatres import find_coin
from backend.services.constructs import check_all_reachable
from backend.services.ground_truth import RehearsalData
from backend.services.resources import TheatreResources
from backend.services.runs.lease import RunEnd, RunMonitor
from backend.services.runs.paid_judge import open_paid_judge
from backend.services.sealed_bundles import fetch_bundle, pack_bundle
from backend.services.transparency.closing import (
    close_certified,
    close_uncertified,
    log_commitment,
    require_open,
)
from backend.services.transparency.keys import require_counting
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import NO_NONCE, Coin, Draws
from theatre.engine.errors import InvalidTransitionError, StateConflictError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import Judge
from theatre.engine.replay import (
    DatasetSource,
    HumanReview,
    ReplayEngine,
    RunContext,
    RunSettings,
    with_reasons,
)
from theatre.engine.rlmf_export import RlmfExport
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.theatre import Theatre
from theatre.oracles.endpoints import ReachableAdapter, endpoints
from theatre.oracles.in_process import by_alias, canned_adapter
from theatre.oracles.retry import make_retrying_invoker
from theatre.oracles.sanitise import TextSanitiser
from theatre.verification.certificate import training_calibration

# A run's evidence in the store: fetched before the run goes on, stored before rows name it.
#
# The archive of the sealed bundle is durable in the store, then the event `sealed` is noted
# together with the row that names it, then the certificate. Whichever machine goes on, it goes on
# from what was named.


CERTIFIED = "certified"


class RunEvidence:
    """The evidence of one theatre's run, for the process that has claimed it.

    Everything raises EvidenceStoreError where store or disk take or give nothing now.
    """

    def __init__(self, theatre_id: str, resources: TheatreResources) -> None:
        self._theatre_id = theatre_id
        self._resources = resources
        self._archive: BundleArchive | None = None
        self.bundle = resources.folder_of(theatre_id) / bundle_name(theatre_id)
        """The sealed bundle on the desk of this machine, once there is one."""

    async def fetch(self, engine: AsyncEngine, datasets: Collection[str]) -> None:
        """Fetch to this machine what the run reads, and the bundle that was noted as sealed.

        A bundle that another machine has sealed replaces one that was sealed here and that no
        row names.
        """
        await asyncio.to_thread(self._resources.data.fetch, datasets)
        async with engine.connect() as connection:
            archive = await find_bundle(connection, self._theatre_id)
        if archive is not None:
            await asyncio.to_thread(fetch_bundle, self._resources.store, archive, self.bundle)

    async def store_bundle(self) -> None:
        """Make the sealed bundle durable, before the event that names it."""
        self._archive = await asyncio.to_thread(pack_bundle, self._resources.store, self.bundle)

    async def note(self, connection: AsyncConnection, event: AuditEvent) -> None:
        """Name what was kept, in the transaction of the event `sealed`."""
        if self._archive is None:
            raise StateConflictError("expected a bundle that was kept before it is noted, got none")
        at = parse_rfc3339(event.at)
        await insert_bundle(connection, self._theatre_id, self._archive, at=at)

    async def certify(self, connection: AsyncConnection, event: AuditEvent) -> None:
        """Sign and store the certificate of the sealed bundle, in the transaction of `resolved`.

        Without one, the commitment is closed as void. It also adds copies of human scores that a
        crash after their entries has left out.
        """
        await copy_scores(connection, self._theatre_id)
        await require_open(connection, self._theatre_id)
        if event.detail["outcome"] != CERTIFIED:
            await close_uncertified(connection, self._theatre_id, event.detail)
            return
        document = await asyncio.to_thread((self.bundle / "certificate.json").read_bytes)
        await close_certified(connection, self._resources.require_keys(), parse_object(document))

    async def store_export(self, export: RlmfExport) -> None:
        """Make the training records durable, before the event that names them."""
        await asyncio.to_thread(self._store_export, export)

    def _store_export(self, export: RlmfExport) -> None:
        with self._resources.store.draft() as draft:
            with draft.open("wb") as handle:
                for line in export.lines():
                    handle.write(line)
            self._resources.store.put(ObjectKind.EXPORTS, draft)


EXPORT = "rlmf_export.jsonl"
WAITING, WAITING_BUDGET = "waiting_hitl", "waiting_budget"
_SUSPECT_SECONDS = 0.1
"""Seconds after which a run that lost its worker must record what it has: a sign of progress."""
UNDER_WAY = frozenset({TheatreState.ACTIVE, TheatreState.SETTLING})
_BEFORE_THE_LAST_CALL = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE})
_STATUS_OF_OUTCOME = {"failed": "failed", "void": "cancelled"}


async def run_theatre(
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    change_listener: ChangeListener,
    monitor: RunMonitor,
) -> RunEnd:
    """Run a claimed theatre as far as it goes, and archive it.

    Raises what `ReplayEngine`, `ConstructAccess`, `log_commitment` and the monitor raise; the state
    says how far it came.
    """
    theatre = stored.value()
    if theatre.state in UNDER_WAY:
        async with engine.connect() as connection:
            await require_open(connection, stored.id)
    if theatre.state is not TheatreState.ARCHIVED:
        evidence = RunEvidence(stored.id, resources)
        await evidence.fetch(engine, datasets_of(theatre, stored))
    journal = journal_of(
        engine, stored, resources, before={"settling": monitor.refuse_if_cancelled}
    )
    if theatre.state not in {TheatreState.RESOLVED, TheatreState.ARCHIVED}:
        coin = await read_run_coin(engine, stored.id)

        async def log() -> bytes:
            if coin is None:
                # The run ends before the first call.
                return NO_NONCE
            require_counting(resources.require_keys().trust, at=resources.clock())
            return await log_commitment(engine, change_listener, stored, coin, monitor)

        async with open_replay(
            engine, theatre, coin, journal, stored, resources, monitor, log=log
        ) as replay:
            theatre = await replay.run()
    if theatre.state is TheatreState.SETTLING:
        desk = await HumanReview.of(theatre, journal, resources.clock)
        return RunEnd(WAITING, desk.rating.step_id, _seconds_left(desk, resources))
    resolved_at, detail = await _read_resolution(journal)
    outcome = str(detail["outcome"])
    if outcome == CERTIFIED and theatre.state is TheatreState.RESOLVED:
        await _archive(theatre, journal, resources, resolved_at=resolved_at)
    return RunEnd(_STATUS_OF_OUTCOME.get(outcome, "succeeded"))


def _seconds_left(desk: HumanReview, resources: TheatreResources) -> float | None:
    limit = desk.rubric.timeout_seconds
    if limit is None:
        return None
    return limit - (resources.clock() - desk.rubric.opened_at).total_seconds()


async def end_as(
    engine: AsyncEngine, stored: StoredTheatre, resources: TheatreResources, *, outcome: JsonObject
) -> None:
    """Resolve a theatre that is ACTIVE or SETTLING with `outcome`, without a certificate."""
    reasoned = await with_reasons(journal_of(engine, stored, resources), outcome)
    async with engine.begin() as connection:
        await end_within(connection, engine, stored, resources, outcome=reasoned)


async def end_within(
    connection: AsyncConnection,
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    *,
    outcome: JsonObject,
) -> None:
    """As `end_as`, in the caller's transaction, and also for a COMMITTED theatre."""
    _, events = stored.value().end(at=resources.clock(), outcome=outcome)
    journal = journal_of(engine, stored, resources)
    for event in events:
        await journal.note_within(connection, event)


def journal_of(
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    *,
    before: Mapping[str, Effect] | None = None,
) -> PostgresRunJournal:
    """Return the journal of a theatre; evidence is durable before its event is noted.

    `before` has checks that may still refuse an event, by its type.
    """
    evidence = RunEvidence(stored.id, resources)
    return PostgresRunJournal(
        engine,
        stored.id,
        epoch=stored.run_epoch,
        effects={"sealed": evidence.note, "resolved": evidence.certify, **(before or {})},
        preparations={"sealed": evidence.store_bundle},
    )


@asynccontextmanager
async def open_replay(
    engine: AsyncEngine,
    theatre: Theatre,
    coin: Coin | None,
    journal: PostgresRunJournal,
    stored: StoredTheatre,
    resources: TheatreResources,
    monitor: RunMonitor,
    *,
    log: Callable[[], Awaitable[bytes]],
) -> AsyncIterator[ReplayEngine]:
    """Open the constructs of a theatre and yield the engine that calls them.

    `log` has the commitment of a new run for a certificate logged, and returns its nonce. Raises
    what it, `ReplayEngine` and `ConstructAccess` raise.
    """
    template = product_template(theatre.template)
    # The version binds the files from then on. A rehearsal leads to no certificate.
    is_logged = theatre.state is TheatreState.COMMITTED and stored.is_certificate_run is True
    if is_logged:
        await asyncio.to_thread(resources.constructs.refuse_copies, template, resources.data)
    async with (
        _open_adapters(theatre, coin, stored, resources) as adapters,
        _open_judge(engine, theatre, journal, stored, resources, monitor) as judge,
    ):
        if theatre.state in _BEFORE_THE_LAST_CALL:
            if stored.answers_sha256 is None:
                await resources.constructs.require_isolated(endpoints(template))
            await check_all_reachable(adapters)
        yield ReplayEngine(
            theatre,
            journal,
            RunContext(
                coin=coin,
                run_nonce=await log() if is_logged else NO_NONCE,
                adapters=adapters,
                authors=resources.constructs.authors(template),
                environment=await asyncio.to_thread(resources.constructs.environment_of, template),
                judge=judge,
                closed=resources.constructs.closed,
                previous_environment=await _previous_environment(engine, theatre, template),
                invoke=monitor.guard(make_retrying_invoker(monitor.guard_sleep(asyncio.sleep))),
                datasets=ground_truth_of(template, stored.rehearsal_sha256, resources),
                scorers=resources.scorers,
                computations=resources.computations,
                runners=resources.runners,
                sanitiser=TextSanitiser(),
                registry=resources.schemas,
                clock=resources.clock,
                sleep=asyncio.sleep,
                is_stopping=monitor.is_stopping,
            ),
            _settings_of(stored, resources),
        )


@asynccontextmanager
async def _open_adapters(
    theatre: Theatre, coin: Coin | None, stored: StoredTheatre, resources: TheatreResources
) -> AsyncIterator[Mapping[str, ReachableAdapter]]:
    """Open the constructs, or what answers instead of each in a rehearsal with canned answers.

    No construct is started or connected in the latter case, on no attempt: the row says so, and
    the engine refuses canned answers in a certificate run by their type.
    """
    template = product_template(theatre.template)
    if stored.answers_sha256 is None:
        async with resources.constructs.open_adapters(template) as adapters:
            yield adapters
        return
    answers = await asyncio.to_thread(resources.data.canned_answers, stored.answers_sha256)
    # Without its coin the run ends before the first call.
    draws = None if coin is None else Draws(coin, theatre.commitment.commitment_hash)
    aliased = {} if draws is None else by_alias(answers, draws)
    yield {
        endpoint.construct_id: canned_adapter(endpoint.construct_id, aliased, clock=resources.clock)
        for endpoint in endpoints(template)
    }


def _open_judge(
    engine: AsyncEngine,
    theatre: Theatre,
    journal: PostgresRunJournal,
    stored: StoredTheatre,
    resources: TheatreResources,
    monitor: RunMonitor,
) -> AbstractAsyncContextManager[Judge | None]:
    """Open the operator's judges while there are calls to make; None where none is needed."""
    provider = TheatreScoringProvider(theatre.template, resources.scorers)
    if theatre.state not in _BEFORE_THE_LAST_CALL or not provider.needs_judge:
        return nullcontext()
    return open_paid_judge(
        engine,
        stored,
        journal,
        resources.judges,
        clock=resources.clock,
        sleep=monitor.guard_sleep(asyncio.sleep),
    )


async def _previous_environment(
    engine: AsyncEngine, theatre: Theatre, template: ProductTheatreTemplate
) -> JsonObject | None:
    """Return the environment in which the version was certified before, for a new run."""
    if theatre.state is not TheatreState.COMMITTED:
        return None
    construct_id = template.product_theatre_config.construct_under_test
    construct_version = template.version_pins.constructs[construct_id]
    async with engine.connect() as connection:
        return await find_newest_environment(connection, construct_id, construct_version)


async def read_run_coin(engine: AsyncEngine, theatre_id: str) -> Coin | None:
    """Return the coin of a theatre for its run; None where its row is lost, which ends the run."""
    async with engine.connect() as connection:
        return await find_coin(connection, theatre_id)


def _settings_of(stored: StoredTheatre, resources: TheatreResources) -> RunSettings:
    settings = RunSettings(
        output_dir=resources.folder_of(stored.id),
        drafts_dir=resources.drafts,
        issuer=resources.issuer,
        # Only where the row says so: a run of unknown kind is a rehearsal.
        certificate_run=stored.is_certificate_run is True,
        attempt=stored.run_epoch,
    )
    return settings._replace(batch_seconds=_SUSPECT_SECONDS) if stored.lost_workers else settings


def ground_truth_of(
    template: ProductTheatreTemplate, rehearsal_sha256: str | None, resources: TheatreResources
) -> DatasetSource:
    """Return what a run reads: what was committed, or what its rehearsal names instead."""
    if rehearsal_sha256 is None:
        return resources.data
    replaced = template.product_theatre_config.replay_data_path
    return RehearsalData(resources.data, replaced, rehearsal_sha256)


def datasets_of(theatre: Theatre, stored: StoredTheatre) -> frozenset[str]:
    """Return the SHA-256 of every dataset that a run reads."""
    committed = product_template(theatre.template).dataset_hashes.values()
    of_a_rehearsal = (stored.rehearsal_sha256, stored.answers_sha256)
    return frozenset([*committed, *(one for one in of_a_rehearsal if one is not None)])


async def _read_resolution(journal: PostgresRunJournal) -> tuple[datetime, JsonObject]:
    async for entry in journal.trail():
        detail = entry["detail"]
        if entry["event_type"] == "resolved" and isinstance(detail, dict):
            return parse_rfc3339(str(entry["at"])), detail
    raise InvalidTransitionError("expected a theatre that is resolved, got one without an outcome")


async def _archive(
    theatre: Theatre,
    journal: PostgresRunJournal,
    resources: TheatreResources,
    *,
    resolved_at: datetime,
) -> None:
    """Write the export, then archive: a theatre is never ARCHIVED without one.

    The export is as of the moment at which the run ended: every attempt writes the same bytes.
    """
    evidence = RunEvidence(theatre.theatre_id, resources)
    export = RlmfExport(
        evidence.bundle,
        resources.schemas,
        exported_at=resolved_at,
        calibration=training_calibration,
    )
    await evidence.store_export(export)
    _, archived = theatre.archive(at=resources.clock(), detail=export.summary().as_document())
    await journal.note(archived)
