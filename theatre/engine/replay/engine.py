"""The replay loop: from a committed theatre to a resolved one, and on from wherever it stopped.

Source: docs/requirements.md R15; docs/adr/0051. Every step is repeatable: a run
that died is run again with the same journal and does only what is not recorded yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import SteadyClock, format_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.errors import (
    AlreadySealedError,
    CoinError,
    DatasetMismatchError,
    InvalidTransitionError,
    JournalChangedError,
)
from theatre.engine.evidence_bundle import bundle_name, set_aside
from theatre.engine.oracle_contract import Isolation
from theatre.engine.replay.context import (
    OpenDatasets,
    RunContext,
    RunJournal,
    RunSettings,
    SealedRun,
    open_datasets,
    run_in_thread,
)
from theatre.engine.replay.dispatch import CallingPass
from theatre.engine.replay.episode import require_judge
from theatre.engine.replay.preflight import (
    activation_detail,
    check_adapters,
    refuse_other_interpreter,
    refuse_rehearsal,
    refuse_unsupported,
    refuse_weaker,
)
from theatre.engine.replay.self_check import (
    SELF_CHECK_FAILED,
    RefusedDraft,
    check_draft,
    recover_sealed_run,
    refuse,
)
from theatre.engine.replay.settlement import Settlement
from theatre.engine.replay.trail import read_isolation, read_run_nonce, with_reasons
from theatre.engine.replay.trail_batches import find_unrecorded_events
from theatre.engine.replay.workflow import ResolutionResult, planned_computations
from theatre.engine.resolution import ProgrammeStatus
from theatre.engine.scoring import TheatreScoringProvider, committed_ratings
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import product_template
from theatre.engine.theatre import OVERDUE, Theatre


class ReplayEngine:
    """Runs one committed theatre over its journal."""

    def __init__(
        self,
        theatre: Theatre,
        journal: RunJournal,
        context: RunContext,
        settings: RunSettings,
    ) -> None:
        """Check all that can be checked before a call.

        Raises InvalidTransitionError for a theatre that is not committed or already resolved,
        ProgrammeError, PinMismatchError, UnknownScorerError and RehearsalAdapterError for what
        cannot be run as committed.
        """
        self._theatre = theatre
        self._journal = journal
        self._clock = SteadyClock(context.clock)
        self._context = context = replace(context, clock=self._clock)
        self._settings = settings
        self._receipt = theatre.commitment
        self._run_nonce = context.run_nonce
        self._begun: Mapping[str, Isolation] = {}
        self._began_in: JsonObject | None = None
        self._tried: Mapping[str, Isolation] | None = None
        self._bundle = settings.output_dir / bundle_name(theatre.theatre_id)
        if theatre.state in {TheatreState.RESOLVED, TheatreState.ARCHIVED}:
            raise InvalidTransitionError(
                f"expected a theatre that is still to run, got one in {theatre.state}"
            )
        self._template = product_template(self._receipt.template_snapshot)
        refuse_unsupported(
            self._template,
            committed_ratings(self._receipt.template_snapshot),
            context.sanitiser,
            context.registry,
            context.runners,
        )
        self._computations = planned_computations(
            self._template, context.computations, context.registry
        )
        check_adapters(self._template, context.adapters, certificate_run=settings.certificate_run)
        self._provider = TheatreScoringProvider(self._receipt.template_snapshot, context.scorers)
        is_calling = theatre.state in {TheatreState.COMMITTED, TheatreState.ACTIVE}
        self._calls = CallingPass(
            receipt=self._receipt,
            template=self._template,
            provider=self._provider,
            journal=journal,
            context=context,
            clock=self._clock,
            settings=settings,
            judge=require_judge(self._provider, context.judge) if is_calling else None,
        )

    async def run(self) -> Theatre:
        """Run to the end and return the RESOLVED theatre; the outcome is in its last event.

        Where the programme waits for people, the theatre is returned in SETTLING: to be run again.
        A bundle that an earlier process sealed is taken as it is, whatever became of the data, once
        it has passed the independent check again. A dataset that is missing or changed before the
        first call raises DatasetError and leaves the state COMMITTED. The theatre is resolved as
        failed where its coin is lost, where a dataset changed in the middle, where what is recorded
        is not what the audit trail names, and where the check refuses the bundle. RunStoppedError
        where the context said that the run is to stop before it was settled; what was called
        is recorded. It is void, without a certificate, where that comes past its `close_by`.
        InvalidTransitionError for a theatre that is overdue before its first call.
        """
        try:
            settled = await self._recover() or await self._run_to_bundle()
            if isinstance(settled, SealedRun):
                # The bundle is durable by now; only then may the theatre say certified.
                await self._resolve(settled)
            elif isinstance(settled, RefusedDraft):
                await self._end(settled.outcome())
            elif settled.status is ProgrammeStatus.FAILED:
                await self._end_without_certificate(settled.failure_outcome())
        except CoinError as error:
            await self._fail(error)
        except (DatasetMismatchError, JournalChangedError) as error:
            # Nothing was called yet: the data can be restored, and the theatre can still run.
            if self._theatre.state is TheatreState.COMMITTED:
                raise
            await self._fail(error)
        return self._theatre

    async def _read_trail(self) -> RefusedDraft | None:
        """Go on behind the last stamp; return the refusal that an earlier process has noted."""
        refused, last = None, self._receipt.committed_at
        async for entry in self._journal.trail():
            last = max(last, cast("str", entry["at"]))
            if entry["event_type"] == "activated":
                detail = cast("JsonObject", entry["detail"])
                self._begun = read_isolation(detail)
                self._began_in = cast("JsonObject | None", detail.get("environment"))
                # What was drawn must be drawn again: a run goes on with the nonce it began with.
                self._run_nonce = read_run_nonce(detail)
            if entry["event_type"] == SELF_CHECK_FAILED:
                refused = RefusedDraft.of(entry)
        # The clock of this machine may be behind that of an earlier process.
        self._clock.not_before(last)
        return refused

    async def _recover(self) -> SealedRun | RefusedDraft | None:
        """Return what an earlier process has sealed, or what was refused, if there is either."""
        refused = await self._read_trail()
        if refused is not None:
            await run_in_thread(self._set_aside)
            return refused
        return await self._find_sealed()

    async def _run_to_bundle(self) -> SealedRun | ResolutionResult | RefusedDraft:
        """Do what is left to do of the run, up to its bundle; CoinError where its coin is lost."""
        draws = self._require_coin()
        with open_datasets(self._template, self._context.datasets) as datasets:
            if self._theatre.state is TheatreState.COMMITTED:
                await self._activate(datasets)
            if self._theatre.state is TheatreState.ACTIVE:
                await self._invoke_all(datasets, draws)
                await self._move(self._theatre.settle(at=self._clock(), detail={}))
            return await self._seal(datasets, draws)

    def _require_coin(self) -> Draws:
        """Return the draws of the committed coin; CoinError where it is lost: none replaces it."""
        # Another coin would draw other samples: a run could be repeated until it looks good.
        coin = self._context.coin
        if coin is None or coin.sha256 != self._receipt.coin_sha256:
            seen = "none" if coin is None else "another one"
            raise CoinError(
                f"expected the coin that the commitment names, got {seen}: what it draws is lost, "
                "and no other coin may stand in for it; commit the template again and run that"
            )
        return Draws(coin, self._receipt.commitment_hash, self._run_nonce)

    async def _activate(self, datasets: OpenDatasets) -> None:
        self._theatre.require_in_time(self._clock())
        # Tried before the first call: what a construct could reach is part of the evidence.
        tried = await self._probe_isolation()
        detail = activation_detail(
            self._template,
            self._provider,
            self._computations,
            self._context.sanitiser_for(self._template),
            self._context,
            tried,
        )
        detail["episodes"] = datasets.replay.lines_total
        await self._move(self._theatre.activate(at=self._clock(), detail=detail))
        self._tried = tried

    async def _probe_isolation(self) -> Mapping[str, Isolation]:
        """Try what each construct of an episode can reach now."""
        closed = [self._settings.output_dir, *self._context.closed]
        return {
            hop.construct_id: await self._context.adapters[hop.construct_id].probe_isolation(closed)
            for hop in self._template.hops
        }

    async def _require_isolated(self) -> None:
        """Try again where this process did not begin the run: on another machine all may be open.

        Raises IsolationLostError for a construct that could reach more than it could then, and
        PinMismatchError where another interpreter would run it.
        """
        if self._tried is None:
            refuse_other_interpreter(self._context.environment, self._began_in)
            self._tried = await self._probe_isolation()
            refuse_weaker(self._tried, self._begun)

    async def _invoke_all(self, datasets: OpenDatasets, draws: Draws) -> None:
        """Call the constructs for every episode that is not recorded, in dataset order."""
        at = format_rfc3339(self._clock())
        events = await find_unrecorded_events(self._journal, self._receipt.theatre_id, at=at)
        if events:
            await self._journal.append([], events)
        await self._require_isolated()
        await self._calls.run(datasets, draws)

    async def _seal(
        self, datasets: OpenDatasets, draws: Draws
    ) -> SealedRun | ResolutionResult | RefusedDraft:
        settlement = Settlement(
            template=self._template,
            receipt=self._receipt,
            draws=draws,
            provider=self._provider,
            computations=self._computations,
            context=self._context,
            settings=self._settings,
        )
        if self._settings.certificate_run:
            # Checked again here: canned answers must never be behind a certificate.
            for adapter in self._context.adapters.values():
                refuse_rehearsal(adapter)
        try:
            return await settlement.seal(
                self._journal,
                datasets,
                resolved_at=self._clock(),
            )
        except AlreadySealedError:
            earlier = await self._find_sealed()
            if earlier is None:
                raise
            return earlier

    async def _find_sealed(self) -> SealedRun | RefusedDraft | None:
        """Return the bundle that is sealed here, if one is: what lies there is checked again."""
        if not self._bundle.is_dir():
            return None
        refused = await check_draft(self._bundle, self._context)
        if refused is None:
            return await recover_sealed_run(self._bundle, self._journal)
        theatre_id = self._theatre.theatre_id
        await refuse(refused, self._journal, theatre_id, self._context, self._settings)
        return refused

    async def _resolve(self, run: SealedRun) -> None:
        if run.certificate is not None and self._theatre.is_open_too_long(self._clock()):
            # Who could wait with a result until its day is over would choose which ones to show.
            await run_in_thread(self._set_aside)
            await self._end_without_certificate({**OVERDUE})
            return
        if run.sealed_event is not None and not run.already_noted:
            await self._journal.note(run.sealed_event)
        if run.certificate is not None:
            await self._end(run.outcome())
            return
        counts = cast("dict[str, int]", run.aggregate["episode_counts"])
        await self._end_without_certificate(run.outcome(), unscored=counts["unscored"])

    async def _end_without_certificate(self, outcome: JsonObject, *, unscored: int = 0) -> None:
        await self._end(await with_reasons(self._journal, outcome, unscored=unscored))

    async def _fail(self, error: CoinError | DatasetMismatchError | JournalChangedError) -> None:
        # Move the draft first: after a crash no bundle of a failed run may be found as sealed.
        await run_in_thread(self._set_aside)
        outcome: JsonObject = {
            "outcome": "failed",
            "outcome_reason": error.code,
            "error_detail": str(error),
        }
        if not isinstance(error, JournalChangedError):
            # Else what its trail says of failures is not to be relied on.
            outcome = await with_reasons(self._journal, outcome)
        theatre, events = self._theatre.end(at=self._clock(), outcome=outcome)
        for event in events:
            await self._journal.note(event)
        self._theatre = theatre

    def _set_aside(self) -> None:
        set_aside(self._theatre.theatre_id, self._settings.output_dir, self._settings.drafts_dir)

    async def _end(self, outcome: JsonObject) -> None:
        await self._move(self._theatre.resolve(at=self._clock(), detail=outcome))

    async def _move(self, step: tuple[Theatre, AuditEvent]) -> None:
        """Make a transition durable first, then believe it."""
        theatre, event = step
        await self._journal.note(event)
        self._theatre = theatre
