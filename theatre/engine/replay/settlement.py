"""From a finished journal to a sealed bundle with its certificate; no construct is called here.

Source: docs/contract/evidence.md §4-§5; docs/adr/0051: seal the bundle, then move the state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from theatre.engine.audit_chain import AuditEvent, ChainHead, head_after, next_entry
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.certificate import (
    ENVIRONMENT_CHANGED,
    WITHIN_ITEM_UNKNOWN,
    CertifiedEvidence,
    certificate_id,
    findings_of,
    issue_certificate,
    reproduction_document,
    validate_certificate,
)
from theatre.engine.clock import format_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.episode_root import EpisodeRoot
from theatre.engine.errors import BundleError, CertificateError
from theatre.engine.evidence_bundle import (
    CERTIFICATE,
    COIN,
    REPRODUCTION,
    EvidenceBundleBuilder,
    EvidenceBundleManifest,
    file_stamps,
)
from theatre.engine.oracle_contract import REMOTE, Isolation, weakest_isolation
from theatre.engine.replay.context import (
    REPRODUCED,
    OpenDatasets,
    Rehearsal,
    RunContext,
    RunJournal,
    RunSettings,
    SealedRun,
    cancellation_check,
    run_in_thread,
)
from theatre.engine.replay.human_review import rating_findings
from theatre.engine.replay.scoring_pass import DistinctEvidence, ScoringPass
from theatre.engine.replay.self_check import RefusedDraft, check_draft, refuse
from theatre.engine.replay.tier_evidence import (
    CallFacts,
    scorer_findings,
    tier_document,
    tier_facts_of,
)
from theatre.engine.replay.trail import ProgrammeTrail, read_isolation
from theatre.engine.replay.workflow import (
    EPISODES,
    EpisodeLines,
    PlannedComputation,
    ProgrammeRun,
    ResolutionResult,
    StepSources,
)
from theatre.engine.resolution import ProgrammeStatus
from theatre.engine.scoring import (
    Aggregator,
    TheatreScoringProvider,
    baseline_findings,
    data_findings,
    left_out_findings,
)
from theatre.engine.scoring.measure_policy import (
    Qualifications,
    certified_qualifications,
    qualification_findings,
)
from theatre.engine.scoring.run_controls import (
    RunControls,
    contradictions,
    corrected_scores,
    read_controls,
)
from theatre.engine.templates import ProductTheatreTemplate
from theatre.engine.tier_assigner import MIN_CRITERION_N, TierAssessment, TierAssigner

SEALED = "sealed"
REHEARSAL = "rehearsal"
WRITTEN_AFTER_TIER = frozenset({"tier.json", "audit_trail.jsonl"})


class SettledRun(NamedTuple):
    """The result of a run, before it is sealed; `isolation` is the weakest of the constructs'.

    `documents` are the data audit and the baselines.
    """

    ending: ResolutionResult
    calls: CallFacts
    isolation: Isolation
    documents: tuple[JsonObject, JsonObject]
    episode_root: str
    findings: tuple[str, ...]
    qualifications: Qualifications
    controls: RunControls
    resolved_at: datetime


class Settlement:
    """Settles one theatre: scores in dataset order, tier, bundle, certificate."""

    def __init__(
        self,
        *,
        template: ProductTheatreTemplate,
        receipt: CommitmentReceipt,
        draws: Draws,
        provider: TheatreScoringProvider,
        computations: Sequence[PlannedComputation],
        context: RunContext,
        settings: RunSettings,
    ) -> None:
        self._template = template
        self._receipt = receipt
        self._draws = draws
        self._provider = provider
        self._computations = computations
        self._context = context
        self._settings = settings

    async def seal(
        self,
        journal: RunJournal,
        datasets: OpenDatasets,
        *,
        resolved_at: datetime,
    ) -> SealedRun | ResolutionResult | RefusedDraft:
        """Write the bundle of a theatre whose calls are done and return what it proves.

        A reproduction leaves a bundle and no certificate. A rehearsal, and a run in which nothing
        was scored, leave no bundle; so does a programme that fails, or waits for people: then its
        ending is returned. A bundle that the independent check refuses is set aside: then its
        refusal is returned. Raises BundleError where the disk fails (nothing half-written stays
        visible), AlreadySealedError where another attempt was quicker, JournalChangedError where
        the journal is not what its trail names, and CertificateError where the evidence may back
        no certificate.
        """
        with EvidenceBundleBuilder(
            self._receipt.theatre_id, self._settings.output_dir, attempt=self._settings.attempt
        ) as builder:
            settled = await self._settle(builder, journal, datasets, resolved_at)
            # What was gathered for that is released by now: the check needs room of its own.
            if isinstance(settled, SettledRun):
                return await self._finish(builder, journal, settled)
            return settled

    async def _settle(
        self,
        builder: EvidenceBundleBuilder,
        journal: RunJournal,
        datasets: OpenDatasets,
        resolved_at: datetime,
    ) -> SettledRun | SealedRun | ResolutionResult:
        """Score what was recorded and carry out the programme; SealedRun where that is all."""
        gold = datasets.gold_labels(self._template.product_theatre_config.gold_label_dataset_id)
        with (
            contextlib.closing(EpisodeLines(gold)) as episodes,
            contextlib.closing(
                DistinctEvidence(
                    self._template,
                    self._provider,
                    gold,
                    draws=self._draws,
                    runner=self._context.runner_for(self._template),
                    registry=self._context.registry,
                )
            ) as evidence,
        ):
            await run_in_thread(self._write_commitment, builder, datasets)
            reads_episodes = any(planned.over == EPISODES for planned in self._computations)
            root = EpisodeRoot(self._draws, gold)
            scoring = ScoringPass(
                self._template,
                self._provider,
                self._draws,
                root,
                [evidence.add, *([episodes.add] if reads_episodes else [])],
            )
            aggregator, facts = await scoring.write(builder, journal, datasets.replay)
            if not self._settings.certificate_run:
                aggregate = await run_in_thread(aggregator.finish)
                rehearsal = self._assess_rehearsal(
                    aggregate, facts, evidence.audit, datasets, resolved_at
                )
                if self._settings.with_findings:
                    documents = await run_in_thread(evidence.documents, cancellation_check())
                    dealt = await run_in_thread(evidence.dealt)
                    known = self._known_findings(facts, aggregator, aggregate, *documents, dealt)
                    found = tuple(sorted({*rehearsal.findings, *known}))
                    rehearsal = rehearsal._replace(findings=found)
                self._context.on_rehearsed(rehearsal)
                return SealedRun(aggregate=aggregate, reason=REHEARSAL)
            if not aggregator.scored:
                aggregate = await run_in_thread(aggregator.finish)
                return SealedRun(aggregate=aggregate, reason="nothing-scored")
            # By the records, not the settings: a mock may have answered in an earlier process.
            if facts.rehearsed:
                raise CertificateError("expected answers of a real construct, got a mock's")
            sources = StepSources(
                facts=facts, aggregator=aggregator, datasets=datasets, episodes=episodes
            )
            trail = await ProgrammeTrail.read(journal)
            run = ProgrammeRun(
                self._template,
                self._computations,
                self._provider.ratings,
                trail=trail,
                sources=sources,
                registry=self._context.registry,
                now=resolved_at,
            )
            ending = await run.execute()
            if ending.status is not ProgrammeStatus.COMPLETED:
                return ending
            await run_in_thread(ending.write, builder)
            documents = await run_in_thread(evidence.write, builder, cancellation_check())
            dealt = await run_in_thread(evidence.dealt)
            known = self._known_findings(facts, aggregator, ending.aggregate, *documents, dealt)
            return SettledRun(
                ending=ending,
                calls=facts,
                isolation=weakest_isolation(read_isolation(trail.activated).values()),
                documents=documents,
                episode_root=root.hexdigest(),
                findings=(*known, *self._findings_of_steps(trail, ending)),
                qualifications=datasets.qualifications(self._receipt.template_snapshot),
                controls=read_controls(
                    self._receipt.template_snapshot,
                    [step.as_document() for step in ending.machine.results],
                ),
                resolved_at=resolved_at,
            )

    def _assess_rehearsal(
        self,
        aggregate: JsonObject,
        facts: CallFacts,
        audit: JsonObject,
        datasets: OpenDatasets,
        resolved_at: datetime,
    ) -> Rehearsal:
        # A stand-in answers: what its construct is kept from, the commitment has tried.
        tried = cast("dict[str, Any] | None", self._receipt.isolation)
        isolation = REMOTE if tried is None else Isolation(**tried)
        qualifications = datasets.qualifications(self._receipt.template_snapshot)
        tier_facts = tier_facts_of(
            self._receipt,
            aggregate,
            facts,
            audit,
            isolation=isolation,
            bundle_complete=True,
            qualifications=qualifications,
        )
        history = self._context.history.excluding(self._receipt.theatre_id).as_of(resolved_at)
        assessment = TierAssigner.assign(tier_facts, history, resolved_at=resolved_at)
        found = {*qualification_findings(qualifications)}
        if not facts.rehearsed:  # Of canned answers no one knows what will give them.
            found.update(findings_of(facts.version_source, isolation))
        return Rehearsal(aggregate=aggregate, assessment=assessment, findings=tuple(sorted(found)))

    def _findings_of_steps(
        self, trail: ProgrammeTrail, ending: ResolutionResult
    ) -> tuple[str, ...]:
        """Return what a reader must know of a run, its steps and those who rated.

        The environment at the start is compared with that of the commitment, and with that of the
        previous certificate where one is known.
        """
        began, before = (
            trail.activated.get(name) for name in ("environment", "previous_environment")
        )
        is_as_before = began == self._receipt.environment and before in (None, began)
        return (
            *(() if is_as_before else (ENVIRONMENT_CHANGED,)),
            *ending.machine.findings,
            *rating_findings(self._receipt.template_snapshot, trail, ending.aggregate),
        )

    def _known_findings(
        self,
        calls: CallFacts,
        aggregator: Aggregator,
        aggregate: JsonObject,
        audit: JsonObject,
        baselines: JsonObject,
        dealt: Mapping[str, float],
    ) -> tuple[str, ...]:
        """Return those that follow from template, data and answers alone, so of a rehearsal too."""
        policy = self._template.execution_policy
        # Of few that are asked twice all can be alike by luck: one pair of coins is, half the time.
        is_unknown = (
            policy.deterministic_sample < MIN_CRITERION_N or calls.determinism_differences > 0
        )
        harness = self._template.product_theatre_config.harness
        return (
            *(() if harness is None else (f"harness:{harness}",)),
            *((WITHIN_ITEM_UNKNOWN,) if policy.repeats == 1 and is_unknown else ()),
            *scorer_findings(self._receipt.template_snapshot, self._template),
            *data_findings(audit),
            *baseline_findings(baselines, dealt, aggregate),
            *aggregator.narrowed(aggregate),
            *left_out_findings(aggregate),
        )

    def _write_commitment(self, builder: EvidenceBundleBuilder, datasets: OpenDatasets) -> None:
        builder.write_document("template.json", self._receipt.template_snapshot)
        builder.write_document("commitment_receipt.json", self._receipt.as_document())
        builder.write_lines(COIN, [self._draws.coin.line])
        gold_name = self._template.product_theatre_config.gold_label_dataset_id
        for path, reader in datasets.by_file_name(gold_name).items():
            builder.write_lines(path, reader.chunks())

    async def _finish(
        self, builder: EvidenceBundleBuilder, journal: RunJournal, settled: SettledRun
    ) -> SealedRun | RefusedDraft:
        assessment = await run_in_thread(self._write_tier, builder, settled)
        event = self._make_sealed_event(settled.resolved_at)
        # The trail precedes the certificate, which must name the trail's head.
        audit_head = await self._write_trail(builder, journal, event)
        certificate = await run_in_thread(
            self._conclude, builder, settled, assessment, event, audit_head
        )
        # Stamps from before the check: a file that changes after it was checked stops the sealing.
        as_checked = await run_in_thread(file_stamps, builder.draft)
        refused = await check_draft(builder.draft, self._context)
        if refused is not None:
            await refuse(refused, journal, self._receipt.theatre_id, self._context, self._settings)
            return refused
        return SealedRun(
            aggregate=settled.ending.aggregate,
            certificate=certificate,
            reason=None if certificate is not None else REPRODUCED,
            sealed_event=event,
            bundle_path=await run_in_thread(builder.seal, as_checked),
        )

    def _conclude(
        self,
        builder: EvidenceBundleBuilder,
        settled: SettledRun,
        assessment: TierAssessment,
        event: AuditEvent,
        audit_head: str,
    ) -> JsonObject | None:
        """Write sums, certificate and manifest; return the certificate.

        None for a bundle whose coin was public before its run: no certificate is for that. Raises
        BundleError for a bundle that lacks a file.
        """
        missing = builder.validate_minimum_files()
        if missing:
            raise BundleError(f"expected a complete bundle, got one without {', '.join(missing)}")
        bundle_hash = builder.write_sums()
        certificate = None
        if self._receipt.reproduces is None:
            evidence = self._certified_evidence(settled, assessment, bundle_hash, audit_head)
            certificate = issue_certificate(self._template, self._receipt, evidence)
            validate_certificate(certificate, self._context.registry)
            builder.write_document(CERTIFICATE, certificate)
        else:
            document = reproduction_document(self._receipt, settled.ending.aggregate)
            builder.write_document(REPRODUCTION, document)
        pins, config = self._template.version_pins, self._template.product_theatre_config
        builder.write_manifest(
            EvidenceBundleManifest(
                theatre_id=self._receipt.theatre_id,
                commitment_hash=self._receipt.commitment_hash,
                bundle_hash=bundle_hash,
                file_inventory=builder.file_inventory,
                created_at=event.at,
                construct_version=pins.constructs[config.construct_under_test],
                scorer_version=pins.scorer_version,
                methodology_version=pins.methodology_version,
            )
        )
        return certificate

    def _certified_evidence(
        self, settled: SettledRun, assessment: TierAssessment, bundle_hash: str, audit_head: str
    ) -> CertifiedEvidence:
        expiry, (audit, baselines) = assessment.expires_at, settled.documents
        return CertifiedEvidence(
            aggregate=settled.ending.aggregate,
            tier=assessment.tier,
            caps=assessment.caps,
            expires_at=None if expiry is None else format_rfc3339(expiry),
            bundle_hash=bundle_hash,
            audit_head=audit_head,
            version_source=settled.calls.version_source,
            usage=settled.calls.usage.as_document(),
            isolation=settled.isolation,
            data_audit=audit,
            baselines=baselines,
            episode_root=settled.episode_root,
            findings=(
                *settled.findings,
                *qualification_findings(settled.qualifications),
                *contradictions(settled.qualifications, settled.controls),
            ),
            qualification=certified_qualifications(settled.qualifications),
            corrected_scores=corrected_scores(
                self._receipt.template_snapshot,
                self._receipt.scorer_pins,
                settled.ending.aggregate,
                settled.qualifications,
                settled.controls,
                settled.ending.labelled,
            ),
            issuer=self._settings.issuer,
            moment=format_rfc3339(settled.resolved_at),
        )

    def _write_tier(self, builder: EvidenceBundleBuilder, settled: SettledRun) -> TierAssessment:
        missing = set(builder.validate_minimum_files()) - WRITTEN_AFTER_TIER
        tier_facts = tier_facts_of(
            self._receipt,
            settled.ending.aggregate,
            settled.calls,
            settled.documents[0],
            isolation=settled.isolation,
            bundle_complete=not missing,
            step_caps=settled.ending.machine.caps,
            qualifications=settled.qualifications,
            controls=settled.controls,
        )
        resolved_at = settled.resolved_at
        history = self._context.history.excluding(self._receipt.theatre_id).as_of(resolved_at)
        assessment = TierAssigner.assign(tier_facts, history, resolved_at=resolved_at)
        builder.write_document("tier.json", tier_document(tier_facts, history, assessment))
        return assessment

    def _make_sealed_event(self, resolved_at: datetime) -> AuditEvent:
        moment = format_rfc3339(resolved_at)
        receipt, identifier = self._receipt, None
        if receipt.reproduces is None:
            identifier = certificate_id(receipt.theatre_id, receipt.commitment_hash)
        return AuditEvent(
            event_type=SEALED,
            at=moment,
            detail={
                "certificate_id": identifier,
                "issuer": self._settings.issuer,
                "issued_at": moment,
                "theatre_resolved_at": moment,
            },
        )

    async def _write_trail(
        self, builder: EvidenceBundleBuilder, journal: RunJournal, event: AuditEvent
    ) -> str:
        """Write the chain so far and then the sealing entry; return the new head."""
        head = ChainHead()
        with contextlib.ExitStack() as stack:
            lines = stack.enter_context(builder.open_file("audit_trail.jsonl"))
            async for entry in journal.trail():
                lines.write(canonical_line(entry))
                head = head_after(entry)
            sealed = next_entry(head, self._receipt.theatre_id, event)
            lines.write(canonical_line(sealed))
            await run_in_thread(stack.close)
        return head_after(sealed).entry_hash
