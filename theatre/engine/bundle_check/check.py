"""The independent check: everything that a bundle claims, recomputed from the bundle alone.

Source: docs/contract/evidence.md. A defect never hides what can still be computed, and what can
not is a failure by name: the ids in a report are always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from theatre.engine.bundle_check.audit_trail import Times, read_audit_trail
from theatre.engine.bundle_check.baselines import check_counted_evidence
from theatre.engine.bundle_check.certificate import (
    Hashes,
    check_certificate_copy,
    check_certificate_fields,
    check_certificate_schema,
    check_trail_facts,
    name_what_nothing_settles,
)
from theatre.engine.bundle_check.commitment import (
    check_coin,
    check_commitment,
    check_template,
    theatre_id_of,
)
from theatre.engine.bundle_check.evidence import Evidence, Installed
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    EPISODES,
    RECEIPT,
    BundleFolder,
    read_documents,
)
from theatre.engine.bundle_check.inventory import check_inventory, check_manifest, check_sums
from theatre.engine.bundle_check.published import check_published
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    CheckReport,
    Ledger,
    Nothing,
    at,
)
from theatre.engine.bundle_check.resolution import (
    ReplayedProgramme,
    add_computed,
    check_resolution,
    replay_programme,
    step_findings,
)
from theatre.engine.bundle_check.results import (
    NO_TEMPLATE,
    RunEvidence,
    check_aggregate,
    check_results_hash,
    check_run,
)
from theatre.engine.bundle_check.tier import check_tier
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Computation, EpisodeRunner, InputSanitiser, Scorer
from theatre.engine.schema_registry import SchemaRegistry


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
    folder = BundleFolder.listed(bundle)
    if EPISODES in folder.files:
        return check_published(folder, installed, now=now, certificate=certificate)
    evidence = _read(folder, installed, progress or (lambda _: None))
    complete = check_inventory(evidence)
    bundle_hash = check_sums(evidence)
    check_manifest(evidence, bundle_hash)
    run = check_run(evidence)
    evidence.times.finish(at(evidence.trail.entry("committed"), "at"), evidence.sealed_at, now)
    commitment_hash = check_commitment(evidence)
    check_trail_facts(evidence, run, commitment_hash)
    run, followed = _check_programme(evidence, run)
    results_hash = check_results_hash(evidence)
    results = _results(evidence, run)
    counted = check_counted_evidence(evidence, run)
    check_tier(evidence, run, followed, results, counted.audit, complete=complete)
    check_certificate_schema(evidence)
    check_certificate_copy(evidence, certificate)
    tally = None if isinstance(run.scoring, Cause) else run.scoring.tally
    found = counted.findings(evidence, results, run.calls.determinism_differences, tally)
    check_certificate_fields(
        evidence,
        run,
        hashes=Hashes(
            commitment=commitment_hash,
            bundle=bundle_hash,
            results=results_hash,
            coin=NOTHING if isinstance(evidence.coin, Cause) else evidence.coin.sha256,
        ),
        results=results,
        counted=counted,
        findings=found if isinstance(found, Nothing) else found + _findings(evidence, followed),
    )
    evidence.ledger.completed(CheckId.CANONICAL_FORM, "every document and line")
    name_what_nothing_settles(evidence)
    return evidence.ledger.report()


def _read(folder: BundleFolder, installed: Installed, progress: Callable[[int], None]) -> Evidence:
    """Read what every check needs, and make the checks of what is read."""
    ledger = Ledger()
    documents, times = read_documents(folder, ledger), Times(ledger)
    plan = check_template(documents, installed, ledger)
    theatre_id = theatre_id_of(documents, ledger)
    coin = check_coin(folder, documents, ledger)
    rated = plan is not None and bool(plan.rubrics)
    return Evidence(
        folder=folder,
        documents=documents,
        plan=plan,
        theatre_id=theatre_id,
        coin=coin,
        trail=read_audit_trail(folder, theatre_id, times, ledger, rated=rated),
        times=times,
        installed=installed,
        ledger=ledger,
        progress=progress,
    )


def _check_programme(
    evidence: Evidence, run: RunEvidence
) -> tuple[RunEvidence, ReplayedProgramme | None]:
    """Make the checks `aggregate` and `resolution`; return what the steps add to the aggregate."""
    plan = evidence.plan
    if plan is None:
        check_aggregate(evidence, run.aggregate)
        evidence.ledger.cannot(CheckId.RESOLUTION, NO_TEMPLATE)
        return run, None
    followed = replay_programme(evidence, plan, run)
    run = add_computed(run, followed, evidence.ledger)
    check_aggregate(evidence, run.aggregate)
    check_resolution(evidence, plan, followed, at(_results(evidence, run), "results_hash"))
    return run, followed


def _results(evidence: Evidence, run: RunEvidence) -> JsonObject | Nothing:
    """Return the recomputed aggregate; the stored one where none could be recomputed."""
    if not isinstance(run.aggregate, Cause):
        return run.aggregate
    stored = evidence.documents.get(AGGREGATE)
    return NOTHING if stored is None else stored


def _findings(evidence: Evidence, followed: ReplayedProgramme | None) -> list[str]:
    """Return what a reader must know of environment and steps, and no tier rule looks at."""
    committed = evidence.documents.at(RECEIPT, "environment")
    began = evidence.trail.detail("activated", "environment")
    before = evidence.trail.detail("activated", "previous_environment")
    is_as_before = committed == began and before in (None, began)
    plan = evidence.plan
    failed = [] if plan is None or followed is None else step_findings(plan, followed)
    harness = NOTHING if plan is None else at(plan.document, "product_theatre_config", "harness")
    named = [] if isinstance(harness, Nothing) else [f"harness:{harness}"]
    return named + (failed if is_as_before else ["environment-changed", *failed])
