"""The independent check: everything that a bundle claims, recomputed from the bundle alone.

Source: contract/evidence.md §6. A defect never hides what can still be computed, and what can
not is a failure by name: the ids in a report are always the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from theatre.engine.bundle_check.audit import AuditTrail, read_audit_trail
from theatre.engine.bundle_check.batches import BatchIndex
from theatre.engine.bundle_check.calls import CallChecker
from theatre.engine.bundle_check.certificate_check import (
    CertificateSources,
    check_certificate_copy,
    check_certificate_fields,
    check_certificate_schema,
)
from theatre.engine.bundle_check.committed import (
    check_commitment,
    check_template,
    theatre_id_of,
)
from theatre.engine.bundle_check.documents import (
    AGGREGATE,
    RECEIPT,
    Documents,
    read_documents,
)
from theatre.engine.bundle_check.episodes import (
    EpisodeEvidence,
    EpisodeSources,
    check_episodes,
    unread_episodes,
)
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.ground_truth import GroundTruth, check_ground_truth, episodes
from theatre.engine.bundle_check.human_scores import rated_files
from theatre.engine.bundle_check.inventory import check_inventory, check_manifest, check_sums
from theatre.engine.bundle_check.json_values import NOTHING, Nothing, at
from theatre.engine.bundle_check.judgements import JudgementCheck
from theatre.engine.bundle_check.people import with_people
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.programme import ProgrammeSources, check_resolution
from theatre.engine.bundle_check.records import RecordChecker
from theatre.engine.bundle_check.report import Cause, CheckId, CheckReport, Ledger
from theatre.engine.bundle_check.results import check_aggregate, check_results_hash
from theatre.engine.bundle_check.sample import repeated_episodes
from theatre.engine.bundle_check.sanitising import InputSanitiser, SanitisingCheck
from theatre.engine.bundle_check.scorer_pins import pinned_provider
from theatre.engine.bundle_check.tier_check import TierEvidence, check_tier
from theatre.engine.bundle_check.trail_facts import TrailSources, check_trail_facts
from theatre.engine.bundle_check.unanchored import name_what_nothing_settles
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry

_NO_TEMPLATE = Cause("no valid template says what was committed")
_NO_GROUND_TRUTH = Cause("the replay dataset cannot be read")
_NO_THEATRE = Cause("no document names the theatre")


def check_bundle(
    bundle: Path,
    scorers: Mapping[str, Scorer],
    *,
    registry: SchemaRegistry,
    computations: Mapping[str, Computation],
    sanitiser: InputSanitiser | None,
    certificate: bytes | None = None,
    runners: Mapping[str, EpisodeRunner] | None = None,
) -> CheckReport:
    """Check the bundle in folder `bundle`; `certificate` is a copy kept from elsewhere.

    `scorers`, `computations` and `runners` are the installed ones by name, `sanitiser` the
    installed one, if any. Raises BundleError where the folder is no bundle at all; every other
    defect is a line of the report.
    """
    installed = _Installed(
        scorers=scorers,
        computations=computations,
        runners=runners or {},
        sanitiser=sanitiser,
        registry=registry,
    )
    return _BundleCheck(bundle, installed).run(certificate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installed:
    """What a check recomputes with, beside the arithmetic of scoring."""

    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation]
    runners: Mapping[str, EpisodeRunner]
    sanitiser: InputSanitiser | None
    registry: SchemaRegistry


class _BundleCheck:
    """One check: what the steps found, in the order in which they need each other."""

    def __init__(self, bundle: Path, installed: _Installed) -> None:
        self._installed = installed
        self._folder = BundleFolder.listed(bundle)
        self._ledger = Ledger()
        self._documents: Documents = read_documents(self._folder, self._ledger)
        self._plan: CommittedPlan | None = check_template(
            self._documents,
            installed.registry,
            self._ledger,
            runners=installed.runners,
        )
        self._theatre_id = theatre_id_of(self._documents, self._ledger)
        rated = self._plan is not None and bool(self._plan.rubrics)
        self._trail: AuditTrail = read_audit_trail(
            self._folder, self._theatre_id, self._ledger, rated=rated
        )

    def run(self, copy: bytes | None) -> CheckReport:
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
        evidence, ground_truth = self._check_episodes()
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
        results_hash = self._check_results(evidence, ground_truth)
        self._check_tier(evidence, complete=complete)
        check_certificate_schema(documents, self._installed.registry, ledger)
        check_certificate_copy(documents, copy, ledger)
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
        )
        check_certificate_fields(documents, sources, ledger)
        ledger.completed(CheckId.CANONICAL_FORM, "every document and line")
        name_what_nothing_settles(documents, ledger)
        return ledger.report()

    def _check_episodes(self) -> tuple[EpisodeEvidence, GroundTruth | None]:
        folder, ledger, plan = self._folder, self._ledger, self._plan
        batches = BatchIndex(self._trail.batches, ledger)
        ground_truth = None if plan is None else check_ground_truth(folder, plan, ledger)
        if plan is None:
            ledger.cannot(CheckId.DATASETS, _NO_TEMPLATE)
            ledger.cannot(CheckId.SCORERS, _NO_TEMPLATE)
            evidence = unread_episodes(folder, batches, _NO_TEMPLATE, ledger)
        else:
            provider = pinned_provider(
                plan, self._documents, self._installed.scorers, self._installed.registry, ledger
            )
            if ground_truth is None or isinstance(self._theatre_id, Nothing):
                cause = _NO_GROUND_TRUTH if ground_truth is None else _NO_THEATRE
                evidence = unread_episodes(folder, batches, cause, ledger)
            else:
                sources = EpisodeSources(
                    plan=plan,
                    ground_truth=ground_truth,
                    checker=self._record_checker(
                        plan,
                        self._theatre_id,
                        JudgementCheck(provider=provider, gold=ground_truth.gold),
                    ),
                    provider=provider,
                    batches=batches,
                )
                evidence = check_episodes(folder, sources, ledger)
            ledger.completed(CheckId.DATASETS, f"{len(plan.datasets)} files")
        batches.finish(readable=self._trail.readable)
        if plan is None:
            ledger.cannot(CheckId.HUMAN_SCORES, _NO_TEMPLATE)
            return evidence, ground_truth
        return with_people(evidence, plan, folder, self._trail, ledger), ground_truth

    def _record_checker(
        self, plan: CommittedPlan, theatre_id: str, judging: JudgementCheck
    ) -> RecordChecker:
        adapters, installed = self._trail.detail("activated", "adapters"), self._installed
        # Of what is wrong with the dataset the pass over its episodes tells.
        read = episodes(self._folder, Ledger())
        return RecordChecker(
            plan,
            calls=CallChecker(plan, theatre_id, adapters, installed.registry),
            sanitising=SanitisingCheck(plan.sanitising, installed.sanitiser, self._ledger),
            judging=judging,
            runner=installed.runners.get(plan.episode_runner),
            repeated=repeated_episodes(read, plan.commitment_hash, plan.deterministic_sample),
            ledger=self._ledger,
        )

    def _check_results(
        self, evidence: EpisodeEvidence, ground_truth: GroundTruth | None
    ) -> str | Nothing:
        documents, ledger = self._documents, self._ledger
        check_aggregate(documents, evidence.aggregate, ledger)
        results_hash = check_results_hash(self._folder, documents, ledger)
        if self._plan is None:
            ledger.cannot(CheckId.RESOLUTION, _NO_TEMPLATE)
            return results_hash
        sources = ProgrammeSources(
            plan=self._plan,
            folder=self._folder,
            ground_truth=ground_truth,
            evidence=evidence,
            results_hash=at(self._results(evidence), "results_hash"),
            trail=self._trail,
            installed=self._installed.computations,
            registry=self._installed.registry,
        )
        check_resolution(documents, sources, ledger)
        return results_hash

    def _results(self, evidence: EpisodeEvidence) -> JsonObject | Nothing:
        """Return the recomputed aggregate; the stored one where none could be recomputed."""
        if not isinstance(evidence.aggregate, Cause):
            return evidence.aggregate
        stored = self._documents.get(AGGREGATE)
        return NOTHING if stored is None else stored

    def _check_tier(self, evidence: EpisodeEvidence, *, complete: bool) -> None:
        results, plan = self._results(evidence), self._plan
        if plan is None or isinstance(results, Nothing):
            cause = _NO_TEMPLATE if plan is None else Cause(f"{AGGREGATE} cannot be read")
            check_tier(self._documents, cause, self._ledger)
            return
        tier_evidence = TierEvidence(
            plan=plan,
            calls=evidence.calls,
            aggregate=results,
            bundle_complete=complete,
            commitment_verifiable=self._ledger.passed(CheckId.COMMITMENT),
            resolved_at=at(self._trail.entry("sealed"), "at"),
        )
        check_tier(self._documents, tier_evidence, self._ledger)
