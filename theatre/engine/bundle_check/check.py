"""The independent check: everything that a bundle claims, recomputed from the bundle alone.

Source: docs/contract/evidence.md. A defect never hides what can still be computed, and what can
not is a failure by name: the ids in a report are always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from theatre.engine.bundle_check.arithmetic import NOTHING_CLOSED, weakest_isolation
from theatre.engine.bundle_check.audit_trail import AuditTrail, Times, read_audit_trail
from theatre.engine.bundle_check.baselines import (
    CountedEvidence,
    TrivialPlays,
    check_counted_evidence,
)
from theatre.engine.bundle_check.batches import BatchIndex
from theatre.engine.bundle_check.calls import CallChecker
from theatre.engine.bundle_check.certificate import (
    CertificateSources,
    TrailSources,
    check_certificate_copy,
    check_certificate_fields,
    check_certificate_schema,
    check_reproduction,
    check_trail_facts,
    isolation_by_construct,
    name_what_nothing_settles,
)
from theatre.engine.bundle_check.commitment import (
    GroundTruth,
    check_coin,
    check_commitment,
    check_ground_truth,
    check_template,
    episodes,
    pinned_scorers,
    theatre_id_of,
)
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    RECEIPT,
    BundleFolder,
    Documents,
    read_documents,
)
from theatre.engine.bundle_check.human_scores import RatingSources, check_human_scores, rated_files
from theatre.engine.bundle_check.inventory import check_inventory, check_manifest, check_sums
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.records import (
    InputSanitiser,
    JudgementCheck,
    RecordChecker,
    SanitisingCheck,
)
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    CheckReport,
    Ledger,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.resolution import (
    ProgrammeSources,
    ReplayedProgramme,
    add_computed,
    check_resolution,
    replay_programme,
    step_caps,
    step_findings,
)
from theatre.engine.bundle_check.results import (
    EpisodeEvidence,
    EpisodeSources,
    check_aggregate,
    check_episodes,
    check_results_hash,
    unread_episodes,
)
from theatre.engine.bundle_check.tier import TierEvidence, check_tier
from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Coin, Draws
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry

NO_TEMPLATE = Cause("no valid template says what was committed")
_NO_GROUND_TRUTH = Cause("the replay dataset cannot be read")
_NO_THEATRE = Cause("no document names the theatre")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What a check recomputes with, in addition to the arithmetic of scoring."""

    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation]
    runners: Mapping[str, EpisodeRunner]
    sanitiser: InputSanitiser | None
    registry: SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSources:
    """Where the episodes of a bundle are read, and what they are checked against."""

    folder: BundleFolder
    documents: Documents
    plan: CommittedPlan | None
    coin: Coin | Cause
    theatre_id: str | Nothing
    trail: AuditTrail
    times: Times
    progress: Callable[[int], None]
    installed: Installed


def check_evidence(
    sources: EvidenceSources, ledger: Ledger
) -> tuple[EpisodeEvidence, GroundTruth | None]:
    """Make the checks of datasets, scorers, records and people; return their results."""
    batches = BatchIndex(sources.trail.batches, ledger)
    if sources.plan is None:
        for check in (CheckId.DATASETS, CheckId.SCORERS):
            ledger.cannot(check, NO_TEMPLATE)
        evidence = unread_episodes(sources.folder, batches, sources.times, NO_TEMPLATE, ledger)
        batches.finish(readable=sources.trail.readable)
        ledger.cannot(CheckId.HUMAN_SCORES, NO_TEMPLATE)
        return evidence, None
    ground_truth = check_ground_truth(sources.folder, sources.plan, ledger)
    evidence = _episodes(sources, sources.plan, ground_truth, batches, ledger)
    ledger.completed(CheckId.DATASETS, f"{len(sources.plan.datasets)} files")
    batches.finish(readable=sources.trail.readable)
    whole = check_people(evidence, sources.plan, sources.folder, sources.trail, ledger)
    return whole, ground_truth


def _episodes(
    sources: EvidenceSources,
    plan: CommittedPlan,
    ground_truth: GroundTruth | None,
    batches: BatchIndex,
    ledger: Ledger,
) -> EpisodeEvidence:
    installed = sources.installed
    scorers = pinned_scorers(plan, sources.documents, installed.scorers, installed.registry, ledger)
    if ground_truth is None or isinstance(sources.theatre_id, Nothing):
        cause = _NO_GROUND_TRUTH if ground_truth is None else _NO_THEATRE
        return unread_episodes(sources.folder, batches, sources.times, cause, ledger)
    if isinstance(sources.coin, Cause):
        return unread_episodes(sources.folder, batches, sources.times, sources.coin, ledger)
    draws = Draws(sources.coin, plan.commitment_hash)
    judging = JudgementCheck(scorers=scorers, gold=ground_truth.gold)
    checked = EpisodeSources(
        plan=plan,
        draws=draws,
        ground_truth=ground_truth,
        checker=_record_checker(sources, plan, draws, sources.theatre_id, judging, ledger),
        scorers=scorers,
        batches=batches,
        times=sources.times,
        progress=sources.progress,
    )
    return check_episodes(sources.folder, checked, ledger)


def _record_checker(
    sources: EvidenceSources,
    plan: CommittedPlan,
    draws: Draws,
    theatre_id: str,
    judging: JudgementCheck,
    ledger: Ledger,
) -> RecordChecker:
    adapters, installed = sources.trail.detail("activated", "adapters"), sources.installed
    # Of what is wrong with the dataset the pass over its episodes tells.
    ids = (episode.episode_id for episode in episodes(sources.folder, Ledger()))
    return RecordChecker(
        plan,
        calls=CallChecker(plan, theatre_id, draws, adapters, installed.registry),
        draws=draws,
        sanitising=SanitisingCheck(plan.sanitising, installed.sanitiser, ledger),
        judging=judging,
        runner=installed.runners.get(plan.episode_runner),
        repeated=draws.repeated(ids, plan.deterministic_sample),
        ledger=ledger,
    )


def check_people(
    evidence: EpisodeEvidence,
    plan: CommittedPlan,
    folder: BundleFolder,
    trail: AuditTrail,
    ledger: Ledger,
) -> EpisodeEvidence:
    """Make the check `human-scores`; return `evidence` with its panels and what they score."""
    scoring = evidence.scoring
    sources = RatingSources(
        plan=plan,
        folder=folder,
        trail=trail,
        columns=scoring if isinstance(scoring, Cause) else scoring.columns,
    )
    panels = check_human_scores(sources, ledger)
    if isinstance(scoring, Cause):
        return replace(evidence, panels=panels)
    aggregate = scoring.aggregate(list(panels.values()))
    return replace(evidence, panels=panels, aggregate=aggregate)


def check_bundle(
    bundle: Path,
    scorers: Mapping[str, Scorer],
    *,
    registry: SchemaRegistry,
    computations: Mapping[str, Computation],
    sanitiser: InputSanitiser | None,
    now: datetime,
    certificate: bytes | None = None,
    runners: Mapping[str, EpisodeRunner] | None = None,
    progress: Callable[[int], None] | None = None,
) -> CheckReport:
    """Check the bundle in folder `bundle`; `certificate` is a copy kept from elsewhere.

    `scorers`, `computations` and `runners` are the installed ones by name, `sanitiser` the
    installed one, if any; `now` is the checker's clock. Raises BundleError where the folder is no
    bundle at all; every other defect is a line of the report. `progress` is called with the number
    of episodes read, every hundred of them and at their end, then with that of interactive episodes
    that were played for the baselines, and may raise to stop the check.
    """
    installed = Installed(
        scorers=scorers,
        computations=computations,
        runners=runners or {},
        sanitiser=sanitiser,
        registry=registry,
    )
    return _BundleCheck(bundle, installed).run(certificate, now, progress or (lambda _: None))


class _BundleCheck:
    """One check: what the steps found, in the order in which they need each other."""

    def __init__(self, bundle: Path, installed: Installed) -> None:
        self._installed = installed
        self._folder = BundleFolder.listed(bundle)
        self._ledger = Ledger()
        self._times = Times(self._ledger)
        self._documents: Documents = read_documents(self._folder, self._ledger)
        self._plan: CommittedPlan | None = check_template(
            self._documents,
            installed.registry,
            self._ledger,
            runners=installed.runners,
        )
        self._theatre_id = theatre_id_of(self._documents, self._ledger)
        self._coin: Coin | Cause = check_coin(self._folder, self._documents, self._ledger)
        rated = self._plan is not None and bool(self._plan.rubrics)
        self._trail: AuditTrail = read_audit_trail(
            self._folder, self._theatre_id, self._times, self._ledger, rated=rated
        )

    def run(
        self, copy: bytes | None, now: datetime, progress: Callable[[int], None]
    ) -> CheckReport:
        folder, documents, ledger = self._folder, self._documents, self._ledger
        complete = check_inventory(
            folder, documents, self._plan, rated_files(self._plan, self._trail), ledger
        )
        bundle_hash = check_sums(folder, documents, ledger)
        check_manifest(
            documents,
            self._plan,
            theatre_id=self._theatre_id,
            bundle_hash=bundle_hash,
            sealed_at=at(self._trail.entry("sealed"), "at"),
            ledger=ledger,
        )
        evidence, ground_truth = check_evidence(
            EvidenceSources(
                folder=folder,
                documents=documents,
                plan=self._plan,
                coin=self._coin,
                theatre_id=self._theatre_id,
                trail=self._trail,
                times=self._times,
                progress=progress,
                installed=self._installed,
            ),
            ledger,
        )
        committed, sealed = self._trail.entry("committed"), self._trail.entry("sealed")
        self._times.finish(at(committed, "at"), at(sealed, "at"), now)
        commitment_hash = check_commitment(documents, self._trail.entry("committed"), ledger)
        check_trail_facts(
            self._trail,
            documents,
            TrailSources(
                plan=self._plan,
                theatre_id=self._theatre_id,
                commitment_hash=commitment_hash,
                episodes=NOTHING if ground_truth is None else ground_truth.total,
                calls=evidence.calls,
                sanitiser=evidence.sanitiser,
            ),
            ledger,
        )
        evidence, results_hash, followed = self._check_results(evidence, ground_truth)
        counted = check_counted_evidence(
            self._folder, documents, self._plan, evidence, self._plays(progress), ledger
        )
        self._check_tier(evidence, followed, counted, complete=complete)
        check_certificate_schema(documents, self._installed.registry, ledger)
        check_certificate_copy(documents, copy, ledger)
        environment = documents.at(RECEIPT, "environment")
        began = self._trail.detail("activated", "environment")
        before = self._trail.detail("activated", "previous_environment")
        is_as_before = environment == began and before in (None, began)
        changed = () if is_as_before else ("environment-changed",)
        plan = self._plan
        failed = () if plan is None or followed is None else step_findings(plan, followed)
        found = counted.findings(plan, self._results(evidence), documents)
        sources = CertificateSources(
            plan=self._plan,
            theatre_id=self._theatre_id,
            commitment_hash=commitment_hash,
            bundle_hash=bundle_hash,
            results_hash=results_hash,
            results=self._results(evidence),
            committed_at=documents.at(RECEIPT, "committed_at"),
            trail=self._trail,
            calls=evidence.calls,
            coin_sha256=NOTHING if isinstance(self._coin, Cause) else self._coin.sha256,
            environment=None if isinstance(environment, Nothing) else environment,
            isolation=self._isolation(),
            audit=counted.audit,
            baselines=counted.baselines,
            findings=NOTHING if isinstance(found, Nothing) else [*changed, *failed, *found],
        )
        if documents.is_reproduction:
            check_reproduction(documents, sources, ledger)
        else:
            check_certificate_fields(documents, sources, ledger)
        ledger.completed(CheckId.CANONICAL_FORM, "every document and line")
        name_what_nothing_settles(documents, self._trail, ledger)
        return ledger.report()

    def _plays(self, progress: Callable[[int], None]) -> TrivialPlays | None:
        """Return what plays interactive episodes without a construct; None where there are none."""
        plan, coin = self._plan, self._coin
        runner = None if plan is None else self._installed.runners.get(plan.episode_runner)
        if plan is None or runner is None or isinstance(coin, Cause):
            return None
        return TrivialPlays(
            runner=runner,
            hops=plan.hops,
            draws=Draws(coin, plan.commitment_hash),
            registry=self._installed.registry,
            progress=progress,
        )

    def _isolation(self) -> JsonObject:
        each = isolation_by_construct(self._plan, self._trail).values()
        found = [one for one in each if isinstance(one, dict)]
        return weakest_isolation(found or [NOTHING_CLOSED])

    def _check_results(
        self, evidence: EpisodeEvidence, ground_truth: GroundTruth | None
    ) -> tuple[EpisodeEvidence, str | Nothing, ReplayedProgramme | None]:
        """Return the evidence with what the programme adds to the aggregate, its hash, the steps.

        No steps where there is no template.
        """
        documents, ledger = self._documents, self._ledger
        if self._plan is None:
            check_aggregate(documents, evidence.aggregate, ledger)
            ledger.cannot(CheckId.RESOLUTION, NO_TEMPLATE)
            return evidence, check_results_hash(self._folder, documents, ledger), None
        sources = ProgrammeSources(
            plan=self._plan,
            folder=self._folder,
            ground_truth=ground_truth,
            evidence=evidence,
            trail=self._trail,
            installed=self._installed.computations,
            registry=self._installed.registry,
        )
        followed = replay_programme(documents, sources, ledger)
        evidence = add_computed(evidence, followed, ledger)
        check_aggregate(documents, evidence.aggregate, ledger)
        recomputed = at(self._results(evidence), "results_hash")
        check_resolution(documents, sources, followed, recomputed, ledger)
        return evidence, check_results_hash(self._folder, documents, ledger), followed

    def _results(self, evidence: EpisodeEvidence) -> JsonObject | Nothing:
        """Return the recomputed aggregate; the stored one where none could be recomputed."""
        if not isinstance(evidence.aggregate, Cause):
            return evidence.aggregate
        stored = self._documents.get(AGGREGATE)
        return NOTHING if stored is None else stored

    def _check_tier(
        self,
        evidence: EpisodeEvidence,
        followed: ReplayedProgramme | None,
        counted: CountedEvidence,
        *,
        complete: bool,
    ) -> None:
        results, plan = self._results(evidence), self._plan
        if plan is None or followed is None or isinstance(results, Nothing):
            cause = NO_TEMPLATE if plan is None else Cause(f"{AGGREGATE} cannot be read")
            check_tier(self._documents, cause, self._installed.registry, self._ledger)
            return
        tier_evidence = TierEvidence(
            plan=plan,
            theatre_id=self._theatre_id,
            calls=evidence.calls,
            isolation=self._isolation(),
            aggregate=results,
            audit={} if isinstance(counted.audit, Nothing) else counted.audit,
            bundle_complete=complete,
            commitment_verifiable=self._ledger.passed(CheckId.COMMITMENT),
            is_reproduction=self._documents.is_reproduction,
            resolved_at=at(self._trail.entry("sealed"), "at"),
            step_caps=step_caps(plan, followed),
            scorer_kinds=text_members(self._documents.at(RECEIPT, "scorer_kinds")),
        )
        check_tier(self._documents, tier_evidence, self._installed.registry, self._ledger)
