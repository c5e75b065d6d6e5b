"""The independent check: everything that a bundle claims, recomputed from the bundle alone.

Source: contract/evidence.md §6. A defect never hides what can still be computed, and what can
not is a failure by name: the ids in a report are always the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from theatre.engine.bundle_check.certificate.certificate_check import (
    CertificateSources,
    check_certificate_copy,
    check_certificate_fields,
    check_certificate_schema,
)
from theatre.engine.bundle_check.certificate.tier_check import TierEvidence, check_tier
from theatre.engine.bundle_check.certificate.trail_facts import TrailSources, check_trail_facts
from theatre.engine.bundle_check.certificate.unanchored import name_what_nothing_settles
from theatre.engine.bundle_check.commitment.committed import (
    check_commitment,
    check_template,
    theatre_id_of,
)
from theatre.engine.bundle_check.commitment.ground_truth import (
    GroundTruth,
)
from theatre.engine.bundle_check.commitment.inventory import (
    check_inventory,
    check_manifest,
    check_sums,
)
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.invocations.sanitising import InputSanitiser
from theatre.engine.bundle_check.people.human_scores import rated_files
from theatre.engine.bundle_check.programme.followed_programme import (
    FollowedProgramme,
    ProgrammeSources,
    follow_programme,
    step_caps,
    step_findings,
)
from theatre.engine.bundle_check.programme.programme import (
    check_resolution,
    with_computed,
)
from theatre.engine.bundle_check.reading.documents import (
    AGGREGATE,
    RECEIPT,
    Documents,
    read_documents,
)
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import NOTHING, Nothing, at
from theatre.engine.bundle_check.report import Cause, CheckId, CheckReport, Ledger
from theatre.engine.bundle_check.scores.episodes import (
    EpisodeEvidence,
)
from theatre.engine.bundle_check.scores.evidence import (
    NO_TEMPLATE,
    EvidenceSources,
    Installed,
    check_evidence,
)
from theatre.engine.bundle_check.scores.results import check_aggregate, check_results_hash
from theatre.engine.bundle_check.trail.audit import AuditTrail, read_audit_trail
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry


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
    installed = Installed(
        scorers=scorers,
        computations=computations,
        runners=runners or {},
        sanitiser=sanitiser,
        registry=registry,
    )
    return _BundleCheck(bundle, installed).run(certificate)


class _BundleCheck:
    """One check: what the steps found, in the order in which they need each other."""

    def __init__(self, bundle: Path, installed: Installed) -> None:
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
        evidence, ground_truth = check_evidence(
            EvidenceSources(
                folder=folder,
                documents=documents,
                plan=self._plan,
                theatre_id=self._theatre_id,
                trail=self._trail,
                installed=self._installed,
            ),
            ledger,
        )
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
        self._check_tier(evidence, followed, complete=complete)
        check_certificate_schema(documents, self._installed.registry, ledger)
        check_certificate_copy(documents, copy, ledger)
        environment = documents.at(RECEIPT, "environment")
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
            environment=None if isinstance(environment, Nothing) else environment,
            findings=()
            if self._plan is None or followed is None
            else step_findings(self._plan, followed),
        )
        check_certificate_fields(documents, sources, ledger)
        ledger.completed(CheckId.CANONICAL_FORM, "every document and line")
        name_what_nothing_settles(documents, ledger)
        return ledger.report()

    def _check_results(
        self, evidence: EpisodeEvidence, ground_truth: GroundTruth | None
    ) -> tuple[EpisodeEvidence, str | Nothing, FollowedProgramme | None]:
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
        followed = follow_programme(documents, sources, ledger)
        evidence = with_computed(evidence, followed, ledger)
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
        self, evidence: EpisodeEvidence, followed: FollowedProgramme | None, *, complete: bool
    ) -> None:
        results, plan = self._results(evidence), self._plan
        if plan is None or followed is None or isinstance(results, Nothing):
            cause = NO_TEMPLATE if plan is None else Cause(f"{AGGREGATE} cannot be read")
            check_tier(self._documents, cause, self._ledger)
            return
        tier_evidence = TierEvidence(
            plan=plan,
            calls=evidence.calls,
            aggregate=results,
            bundle_complete=complete,
            commitment_verifiable=self._ledger.passed(CheckId.COMMITMENT),
            resolved_at=at(self._trail.entry("sealed"), "at"),
            step_caps=step_caps(plan, followed),
        )
        check_tier(self._documents, tier_evidence, self._ledger)
