"""The certificate: its schema, every field of it, and the copy that a user has.

Source: docs/contract/evidence.md §4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID, uuid5

from theatre.engine.bundle_check.arithmetic import RESERVED, both_estimands, usage_of
from theatre.engine.bundle_check.audit_trail import AuditTrail
from theatre.engine.bundle_check.baselines import CountedEvidence
from theatre.engine.bundle_check.batches import CallFacts
from theatre.engine.bundle_check.calls import sources_of
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    CERTIFICATE,
    MAX_DOCUMENT_BYTES,
    RECEIPT,
    REPRODUCTION,
    TIER,
    Documents,
)
from theatre.engine.bundle_check.measures import (
    FINDINGS_OF_MEASURES,
    certified,
    labelled_criteria,
    measure_findings,
    near_corrected,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    text_members,
)
from theatre.engine.bundle_check.results import RunEvidence
from theatre.engine.bundle_check.tier import (
    ON_CERTIFICATE,
    controls_in,
    history_summary,
    qualifications_in,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256, parse_object
from theatre.engine.errors import ParseError

SCHEMAS = {
    CERTIFICATE: "echelon_certificate_schema.json",
    REPRODUCTION: "echelon_reproduction_schema.json",
}
SCHEMA_VERSION = "1.2.0"

_FROM_RESULTS = (
    "scores",
    "composite_score",
    "score_counts",
    "holdout_scores",
    "episode_counts",
    "coverage",
    "refusal_rate",
)
_METRICS = ("precision", "recall", "reply_accuracy")
"""Each is the score of the criterion of that name, else null."""
_Fields: TypeAlias = "dict[str, JsonValue | Nothing]"


class Hashes(NamedTuple):
    """The hashes that a certificate binds, recomputed; NOTHING where one cannot be."""

    commitment: str | Nothing
    bundle: str | Nothing
    results: str | Nothing
    coin: JsonValue | Nothing


def check_certificate_schema(evidence: Evidence) -> None:
    """Make the check `certificate-schema`, of what a reproduction has in its place too."""
    documents, ledger = evidence.documents, evidence.ledger
    document = documents.get(documents.conclusion)
    if document is None:
        ledger.wrong(CheckId.CERTIFICATE_SCHEMA, f"{documents.conclusion} as a document", "none")
        return
    issued_under = at(document, "schema_version")
    if not documents.is_reproduction and issued_under != SCHEMA_VERSION:
        seen = f"issued under {render(issued_under)}: run again"
        ledger.wrong(CheckId.CERTIFICATE_SCHEMA, f"schema_version {SCHEMA_VERSION}", seen)
        return
    schema = SCHEMAS[documents.conclusion]
    for violation in evidence.registry.validate(schema, document):
        seen = f"{violation.pointer}: {violation.detail}"
        ledger.wrong(CheckId.CERTIFICATE_SCHEMA, f"a document that fits {schema}", seen)
    ledger.completed(CheckId.CERTIFICATE_SCHEMA, schema)


def check_certificate_copy(evidence: Evidence, copy: bytes | None) -> None:
    """Make the check `certificate-copy`; without a copy nothing anchors the certificate."""
    ledger = evidence.ledger
    if copy is None:
        ledger.unanchored(
            CheckId.CERTIFICATE_COPY,
            "none was given; the one that its issuer publishes settles it, or `signer-trusted`",
        )
        return
    try:
        document = parse_object(copy, max_bytes=MAX_DOCUMENT_BYTES)
    except ParseError as error:
        ledger.wrong(CheckId.CERTIFICATE_COPY, "a copy that is a strict JSON object", str(error))
        return
    # A bundle made anew from end to end is consistent: only a copy from elsewhere shows it.
    seen = evidence.documents.at(CERTIFICATE)
    ledger.compare(CheckId.CERTIFICATE_COPY, "the certificate", document, seen)
    ledger.completed(CheckId.CERTIFICATE_COPY, "equal to the certificate you gave")


def check_certificate_fields(
    evidence: Evidence,
    run: RunEvidence,
    *,
    hashes: Hashes,
    results: JsonObject | Nothing,
    counted: CountedEvidence,
    findings: Sequence[str] | Nothing,
) -> None:
    """Make the check `certificate-fields`: no member more, none less, each recomputed.

    `results` is the aggregate; `findings` those that are neither about calls nor isolation.
    """
    documents, ledger = evidence.documents, evidence.ledger
    environment = documents.at(RECEIPT, "environment")
    expected: _Fields
    if documents.is_reproduction:
        # It says whose run it is and what came out: nothing that could be shown as a certificate.
        expected = {
            "reproduces": documents.at(RECEIPT, "reproduces"),
            "coin_sha256": hashes.coin,
            "results_hash": hashes.results,
            "environment_hash": None
            if environment in (None, NOTHING)
            else at(environment, "environment_hash"),
        }
        _compare_fields(documents.at(REPRODUCTION), expected, ledger)
        ledger.completed(CheckId.CERTIFICATE_FIELDS, "a reproduction, which certifies nothing")
        return
    sealed, sealed_at, isolation = (
        evidence.trail.detail("sealed"),
        evidence.sealed_at,
        evidence.isolation,
    )
    source = run.calls.version_source
    found: list[JsonValue] | Nothing = NOTHING
    if not isinstance(findings, Nothing):
        findings = [*findings, *_measure_findings(evidence, run.calls)]
        own = {f"version-{source}": source != "computed", "network-open": not isolation["network"]}
        found = [*sorted({code for code, there in own.items() if there}.union(findings))]
    expected = {
        "schema_version": SCHEMA_VERSION,
        "certificate_id": certificate_id(evidence.theatre_id, hashes.commitment),
        "theatre_id": evidence.theatre_id,
        "commitment_hash": hashes.commitment,
        "evidence_bundle_hash": hashes.bundle,
        "results_hash": hashes.results,
        "audit_head": evidence.trail.head,
        "version_source": source,
        "theatre_committed_at": documents.at(RECEIPT, "committed_at"),
        **_expect_committed(evidence.plan),
        **_expect_measured(results, documents),
        "issuer": at(sealed, "issuer"),
        "issued_at": sealed_at,
        "theatre_resolved_at": sealed_at,
        "usage": _usage(evidence.plan, run.calls, documents),
        **_expect_measures(evidence, run, results),
        **dict.fromkeys(RESERVED, None),
        "coin_sha256": hashes.coin,
        "episode_root": run.episode_root,
        "environment": None if isinstance(environment, Nothing) else environment,
        "isolation": isolation,
        "data_audit": counted.audit,
        "baselines": counted.baselines,
        "findings": found,
        **{
            name: documents.at(TIER, "assessment", member)
            for name, member in ON_CERTIFICATE.items()
        },
    }
    certificate = documents.at(CERTIFICATE)
    _compare_fields(certificate, expected, ledger)
    summary = f"{len(expected)} fields, certificate_id {render(at(certificate, 'certificate_id'))}"
    ledger.completed(CheckId.CERTIFICATE_FIELDS, summary)


def _compare_fields(document: JsonValue | Nothing, expected: _Fields, ledger: Ledger) -> None:
    for name, value in expected.items():
        ledger.compare(CheckId.CERTIFICATE_FIELDS, name, value, at(document, name))
    members = document.keys() if isinstance(document, dict) else set()
    # What is not computed again must not be on a certificate.
    for name in sorted(members - expected.keys()):
        ledger.wrong(CheckId.CERTIFICATE_FIELDS, "only the members of a certificate", name)


def certificate_id(theatre_id: str | Nothing, commitment_hash: str | Nothing) -> str | Nothing:
    """Return UUID5(theatre, "certificate:" + commitment), or NOTHING for want of either."""
    if isinstance(theatre_id, Nothing) or isinstance(commitment_hash, Nothing):
        return NOTHING
    return str(uuid5(UUID(theatre_id), f"certificate:{commitment_hash}"))


def _usage(
    plan: CommittedPlan | None, calls: CallFacts, documents: Documents
) -> JsonValue | Nothing:
    """Return what the calls took; as stated where their records are withheld."""
    if plan is None or calls.is_stated:
        return documents.at(CERTIFICATE, "usage")
    return usage_of(plan.document, calls.taken)


def _expect_measures(
    evidence: Evidence, run: RunEvidence, results: JsonObject | Nothing
) -> _Fields:
    """Return what the measures are worth; as stated where their qualifications are withheld."""
    documents, plan, names = (
        evidence.documents,
        evidence.plan,
        ("qualification", "corrected_scores"),
    )
    stated: _Fields = {name: documents.at(CERTIFICATE, name) for name in names}
    if run.calls.is_stated:
        return stated
    if plan is None or isinstance(results, Nothing):
        return dict.fromkeys(names, NOTHING)
    pins = text_members(documents.at(RECEIPT, "scorer_pins"))
    qualifications, controls = qualifications_in(evidence, plan), controls_in(evidence, plan)
    kinds, scoring = text_members(documents.at(RECEIPT, "scorer_kinds")), run.scoring
    columns = None if isinstance(scoring, Cause) else scoring.columns
    labelled = {}
    if columns is not None:
        rated = columns.labelled
        labelled = labelled_criteria(
            plan.document, kinds, lambda name, step_id: rated(name, run.panels[step_id])
        )
    found = certified(plan.document, pins, qualifications, results, controls, labelled)
    if found["corrected_scores"] is not None:
        near_corrected(found["corrected_scores"], stated["corrected_scores"])
    return found


def _measure_findings(evidence: Evidence, calls: CallFacts) -> list[str]:
    if calls.is_stated:
        stated = evidence.documents.at(CERTIFICATE, "findings")
        listed = stated if isinstance(stated, list) else []
        return [
            one for one in listed if isinstance(one, str) and one.startswith(FINDINGS_OF_MEASURES)
        ]
    plan = evidence.plan
    if plan is None:
        return []
    return measure_findings(qualifications_in(evidence, plan), controls_in(evidence, plan))


def _expect_committed(plan: CommittedPlan | None) -> _Fields:
    if plan is None:
        return dict.fromkeys(
            (
                "template_id",
                "construct_id",
                "construct_version",
                "construct_chain_versions",
                "criteria",
                "scorer_version",
                "methodology_version",
                "dataset_hash",
                "ground_truth_hash",
                "ground_truth_source",
                "execution_path",
            ),
            NOTHING,
        )
    return {
        "template_id": plan.template_id,
        "construct_id": plan.construct_id,
        "construct_version": plan.construct_version,
        "construct_chain_versions": plan.chain_versions,
        "criteria": plan.criteria,
        "scorer_version": plan.scorer_version,
        "methodology_version": plan.methodology_version,
        "dataset_hash": plan.replay_dataset_hash,
        "ground_truth_hash": canonical_sha256(plan.dataset_hashes),
        "ground_truth_source": plan.ground_truth_source,
        "execution_path": "replay",
    }


def _expect_measured(results: JsonObject | Nothing, documents: Documents) -> _Fields:
    """Return the results; interval bounds as the aggregate has them, which has its own check."""
    metrics: _Fields = {}
    for name in _METRICS:
        score = at(results, "scores", name)
        metrics[name] = None if isinstance(score, Nothing) else score
    measured = at(results, "calibration")  # null where nothing stated a probability
    ece = None if measured is None else at(measured, "ece")
    return {
        **{name: at(results, name) for name in _FROM_RESULTS},
        **metrics,
        "brier_score": None if measured is None else at(measured, "brier_score"),
        "ece": None if ece is None else at(ece, "value"),
        "replay_count": at(results, "episode_counts", "scored"),
        "score_intervals": documents.at(AGGREGATE, "score_intervals"),
        "repeats": _repeats(results, documents),
    }


def _repeats(results: JsonObject | Nothing, documents: Documents) -> JsonValue | Nothing:
    """Return both estimands of a run that asked more than once; null for any other."""
    if isinstance(results, Nothing):
        return NOTHING
    stored = documents.at(AGGREGATE, "score_intervals")
    try:
        return both_estimands({**results, "score_intervals": stored})
    except (KeyError, TypeError):
        return NOTHING


def check_trail_facts(evidence: Evidence, run: RunEvidence, commitment_hash: str | Nothing) -> None:
    """Finish the check `audit-chain`: hold the trail against the other files.

    `expected` has `event/member` → the value that the detail of that event must have there.
    """
    documents, trail, ledger = evidence.documents, evidence.trail, evidence.ledger
    plan, truth = evidence.plan, run.ground_truth
    expected: dict[str, JsonValue | Nothing] = {
        "created/template_id": NOTHING,
        "activated/episodes": NOTHING if truth is None else truth.total,
        "activated/adapters": NOTHING,
        "activated/scorers": documents.at(RECEIPT, "scorer_pins"),
        "activated/computations": NOTHING,
        "activated/sanitiser": run.sanitiser,
        "activated/isolation": NOTHING,
        "sealed/certificate_id": None
        if documents.is_reproduction
        else certificate_id(evidence.theatre_id, commitment_hash),
        "sealed/issued_at": evidence.sealed_at,
        "sealed/theatre_resolved_at": evidence.sealed_at,
    }
    if plan is not None:
        recorded = text_members(trail.detail("activated", "computations"))
        names = {step.computation.name for step in plan.steps if step.computation is not None}
        expected["created/template_id"] = plan.template_id
        expected["activated/isolation"] = evidence.isolation_by_construct
        expected["activated/adapters"] = _adapters(plan, trail, run.calls, ledger)
        expected["activated/computations"] = {name: recorded.get(name) for name in sorted(names)}
        if plan.sanitising is None:
            expected["activated/sanitiser"] = None
        if plan.rubrics:
            # A name or null for each: who wrote a construct is its issuer's word.
            named = text_members(trail.detail("activated", "authors"))
            authors: JsonObject = {
                hop.construct_id: named.get(hop.construct_id) for hop in plan.hops
            }
            expected["activated/authors"] = authors
    for place, value in expected.items():
        event_type, _, member = place.partition("/")
        ledger.compare(CheckId.AUDIT_CHAIN, place, value, trail.detail(event_type, member))
    head = trail.head if documents.is_reproduction else documents.at(CERTIFICATE, "audit_head")
    # Without it a chain that was cut, or made anew as a whole, would hold.
    ledger.compare(CheckId.AUDIT_CHAIN, "audit_head of the certificate", trail.head, head)
    ledger.completed(CheckId.AUDIT_CHAIN, f"head {render(trail.head)}")


def _adapters(
    plan: CommittedPlan, trail: AuditTrail, calls: CallFacts, ledger: Ledger
) -> JsonObject:
    """Return construct → adapter as the records have it; of one never called, as the trail has."""
    adapters: JsonObject = {}
    for hop in plan.hops:
        named = trail.detail("activated", "adapters", hop.construct_id)
        seen = calls.adapters.get(hop.construct_id, named)
        try:
            sources_of(plan, hop, seen)
        except DefectError as defect:
            ledger.wrong(CheckId.AUDIT_CHAIN, f"activated with {defect.expected}", defect.actual)
        adapters[hop.construct_id] = None if isinstance(seen, Nothing) else seen
    return adapters


def name_what_nothing_settles(evidence: Evidence) -> None:
    """Note who made the bundle, when, and what else there was, and which line would settle it.

    The lines are those of the proofs next to a bundle (docs/contract/trust.md §6).
    """
    documents, trail, ledger = evidence.documents, evidence.trail, evidence.ledger
    issued = trail.detail("sealed") if documents.is_reproduction else documents.at(CERTIFICATE)
    issuer = render(at(issued, "issuer"))
    ledger.unanchored(
        CheckId.ISSUER_IDENTITY, f"{issuer} by its own word; `signer-trusted` settles it"
    )
    issued_at = render(at(issued, "issued_at"))
    ledger.unanchored(
        CheckId.TIMES_AND_LATENCIES,
        f"issued {issued_at} by its issuer's word; `order` and `witnesses` settle what came first",
    )
    ledger.unanchored(
        CheckId.HISTORY,
        f"{history_summary(documents)}; `closure` settles its runs, nothing the rest",
    )
