"""The recorded episodes of a bundle, and people's scores, counted once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.commitment.ground_truth import (
    GroundTruth,
    check_ground_truth,
    episodes,
)
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.commitment.sample import repeated_episodes
from theatre.engine.bundle_check.commitment.scorer_pins import pinned_provider
from theatre.engine.bundle_check.invocations.batches import BatchIndex
from theatre.engine.bundle_check.invocations.calls import CallChecker
from theatre.engine.bundle_check.invocations.judgements import JudgementCheck
from theatre.engine.bundle_check.invocations.records import RecordChecker
from theatre.engine.bundle_check.invocations.sanitising import InputSanitiser, SanitisingCheck
from theatre.engine.bundle_check.reading.documents import Documents
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import Nothing
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.scores.episodes import (
    EpisodeEvidence,
    EpisodeSources,
    check_episodes,
    unread_episodes,
)
from theatre.engine.bundle_check.scores.people import with_people
from theatre.engine.bundle_check.trail.audit import AuditTrail
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry

NO_TEMPLATE = Cause("no valid template says what was committed")
_NO_GROUND_TRUTH = Cause("the replay dataset cannot be read")
_NO_THEATRE = Cause("no document names the theatre")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What a check recomputes with, beside the arithmetic of scoring."""

    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation]
    runners: Mapping[str, EpisodeRunner]
    sanitiser: InputSanitiser | None
    registry: SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSources:
    """Where the episodes of a bundle are read, and what they are held against."""

    folder: BundleFolder
    documents: Documents
    plan: CommittedPlan | None
    theatre_id: str | Nothing
    trail: AuditTrail
    installed: Installed


def check_evidence(
    sources: EvidenceSources, ledger: Ledger
) -> tuple[EpisodeEvidence, GroundTruth | None]:
    """Make the checks of datasets, scorers, records and people; return what they come to."""
    batches = BatchIndex(sources.trail.batches, ledger)
    if sources.plan is None:
        for check in (CheckId.DATASETS, CheckId.SCORERS):
            ledger.cannot(check, NO_TEMPLATE)
        evidence = unread_episodes(sources.folder, batches, NO_TEMPLATE, ledger)
        batches.finish(readable=sources.trail.readable)
        ledger.cannot(CheckId.HUMAN_SCORES, NO_TEMPLATE)
        return evidence, None
    ground_truth = check_ground_truth(sources.folder, sources.plan, ledger)
    evidence = _episodes(sources, sources.plan, ground_truth, batches, ledger)
    ledger.completed(CheckId.DATASETS, f"{len(sources.plan.datasets)} files")
    batches.finish(readable=sources.trail.readable)
    whole = with_people(evidence, sources.plan, sources.folder, sources.trail, ledger)
    return whole, ground_truth


def _episodes(
    sources: EvidenceSources,
    plan: CommittedPlan,
    ground_truth: GroundTruth | None,
    batches: BatchIndex,
    ledger: Ledger,
) -> EpisodeEvidence:
    installed = sources.installed
    provider = pinned_provider(
        plan, sources.documents, installed.scorers, installed.registry, ledger
    )
    if ground_truth is None or isinstance(sources.theatre_id, Nothing):
        cause = _NO_GROUND_TRUTH if ground_truth is None else _NO_THEATRE
        return unread_episodes(sources.folder, batches, cause, ledger)
    judging = JudgementCheck(provider=provider, gold=ground_truth.gold)
    checked = EpisodeSources(
        plan=plan,
        ground_truth=ground_truth,
        checker=_record_checker(sources, plan, sources.theatre_id, judging, ledger),
        provider=provider,
        batches=batches,
    )
    return check_episodes(sources.folder, checked, ledger)


def _record_checker(
    sources: EvidenceSources,
    plan: CommittedPlan,
    theatre_id: str,
    judging: JudgementCheck,
    ledger: Ledger,
) -> RecordChecker:
    adapters, installed = sources.trail.detail("activated", "adapters"), sources.installed
    # Of what is wrong with the dataset the pass over its episodes tells.
    read = episodes(sources.folder, Ledger())
    return RecordChecker(
        plan,
        calls=CallChecker(plan, theatre_id, adapters, installed.registry),
        sanitising=SanitisingCheck(plan.sanitising, installed.sanitiser, ledger),
        judging=judging,
        runner=installed.runners.get(plan.episode_runner),
        repeated=repeated_episodes(read, plan.commitment_hash, plan.deterministic_sample),
        ledger=ledger,
    )
