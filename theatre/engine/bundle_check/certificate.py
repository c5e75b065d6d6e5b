"""The certificate: its schema, every field of it, and the copy that a user has.

Source: docs/contract/evidence.md §4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID, uuid5

from theatre.engine.bundle_check.arithmetic import NOTHING_CLOSED, is_isolation
from theatre.engine.bundle_check.audit_trail import AuditTrail, check_audit_facts
from theatre.engine.bundle_check.batches import CallFacts
from theatre.engine.bundle_check.calls import require_adapter
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    CERTIFICATE,
    MAX_DOCUMENT_BYTES,
    RECEIPT,
    REPRODUCTION,
    TIER,
    Documents,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import (
    NOTHING,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    text_members,
)
from theatre.engine.bundle_check.resolution import computation_versions
from theatre.engine.bundle_check.tier import ON_CERTIFICATE, history_summary
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry

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
_RESERVED = (
    "qualification",
    "corrected_scores",
    "repeats",
    "usage",
    "episode_root",
    "owner",
)
"""Members of the form that nothing in this release can fill."""

_Fields: TypeAlias = "dict[str, JsonValue | Nothing]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSources:
    """Everything that a certificate's fields follow from; a gap is NOTHING."""

    plan: CommittedPlan | None
    theatre_id: str | Nothing
    commitment_hash: str | Nothing
    bundle_hash: str | Nothing
    results_hash: str | Nothing
    results: JsonObject | Nothing
    committed_at: JsonValue | Nothing
    trail: AuditTrail
    calls: CallFacts
    coin_sha256: str | Nothing
    environment: JsonValue
    isolation: JsonObject
    audit: JsonObject | Nothing
    baselines: JsonObject | Nothing
    findings: Iterable[str] | Nothing


def check_certificate_schema(
    documents: Documents, registry: SchemaRegistry, ledger: Ledger
) -> None:
    """Make the check `certificate-schema`, of what a reproduction has in its place too."""
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
    for violation in registry.validate(schema, document):
        seen = f"{violation.pointer}: {violation.detail}"
        ledger.wrong(CheckId.CERTIFICATE_SCHEMA, f"a document that fits {schema}", seen)
    ledger.completed(CheckId.CERTIFICATE_SCHEMA, schema)


def check_certificate_copy(documents: Documents, copy: bytes | None, ledger: Ledger) -> None:
    """Make the check `certificate-copy`; without a copy nothing anchors the certificate."""
    if copy is None:
        ledger.unanchored(
            CheckId.CERTIFICATE_COPY,
            "none was given; the one that its issuer publishes would settle it",
        )
        return
    try:
        document = parse_object(copy, max_bytes=MAX_DOCUMENT_BYTES)
    except ParseError as error:
        ledger.wrong(CheckId.CERTIFICATE_COPY, "a copy that is a strict JSON object", str(error))
        return
    seen = documents.at(CERTIFICATE)
    ledger.compare(CheckId.CERTIFICATE_COPY, "the certificate", document, seen)
    ledger.completed(CheckId.CERTIFICATE_COPY, "equal to the certificate you gave")


def check_certificate_fields(
    documents: Documents, sources: CertificateSources, ledger: Ledger
) -> None:
    """Make the check `certificate-fields`: no member more, none less, each recomputed."""
    certificate = documents.at(CERTIFICATE)
    expected = {
        **_identity(sources),
        **_expect_committed(sources.plan),
        **_expect_measured(sources, documents),
        **_expect_sealed(sources),
        **dict.fromkeys(_RESERVED, None),
        "coin_sha256": sources.coin_sha256,
        "environment": sources.environment,
        "isolation": sources.isolation,
        "data_audit": sources.audit,
        "baselines": sources.baselines,
        "findings": _findings(sources),
        **{
            name: documents.at(TIER, "assessment", member)
            for name, member in ON_CERTIFICATE.items()
        },
    }
    _compare_fields(certificate, expected, ledger)
    summary = f"{len(expected)} fields, certificate_id {render(at(certificate, 'certificate_id'))}"
    ledger.completed(CheckId.CERTIFICATE_FIELDS, summary)


def check_reproduction(documents: Documents, sources: CertificateSources, ledger: Ledger) -> None:
    """Make the check `certificate-fields` of a reproduction: it says no more than these."""
    environment = sources.environment
    expected: _Fields = {
        "reproduces": documents.at(RECEIPT, "reproduces"),
        "coin_sha256": sources.coin_sha256,
        "results_hash": sources.results_hash,
        "environment_hash": None if environment is None else at(environment, "environment_hash"),
    }
    _compare_fields(documents.at(REPRODUCTION), expected, ledger)
    ledger.completed(CheckId.CERTIFICATE_FIELDS, "a reproduction, which certifies nothing")


def _compare_fields(document: JsonValue | Nothing, expected: _Fields, ledger: Ledger) -> None:
    for name, value in expected.items():
        ledger.compare(CheckId.CERTIFICATE_FIELDS, name, value, at(document, name))
    members = document.keys() if isinstance(document, dict) else set()
    for name in sorted(members - expected.keys()):
        ledger.wrong(CheckId.CERTIFICATE_FIELDS, "only the members of a certificate", name)


def certificate_id(theatre_id: str | Nothing, commitment_hash: str | Nothing) -> str | Nothing:
    """Return UUID5(theatre, "certificate:" + commitment), or NOTHING for want of either."""
    if isinstance(theatre_id, Nothing) or isinstance(commitment_hash, Nothing):
        return NOTHING
    return str(uuid5(UUID(theatre_id), f"certificate:{commitment_hash}"))


def _findings(sources: CertificateSources) -> list[JsonValue] | Nothing:
    if isinstance(sources.findings, Nothing):
        return NOTHING
    source = sources.calls.version_source
    found = {
        f"version-{source}": source != "computed",
        "network-open": not sources.isolation["network"],
    }
    return [*sorted({code for code, there in found.items() if there}.union(sources.findings))]


def _identity(sources: CertificateSources) -> _Fields:
    return {
        "schema_version": SCHEMA_VERSION,
        "certificate_id": certificate_id(sources.theatre_id, sources.commitment_hash),
        "theatre_id": sources.theatre_id,
        "commitment_hash": sources.commitment_hash,
        "evidence_bundle_hash": sources.bundle_hash,
        "results_hash": sources.results_hash,
        "audit_head": sources.trail.head,
        "version_source": sources.calls.version_source,
        "theatre_committed_at": sources.committed_at,
    }


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


def _expect_measured(sources: CertificateSources, documents: Documents) -> _Fields:
    """Return the results; interval bounds as the aggregate has them, which has its own check."""
    results = sources.results
    metrics: _Fields = {}
    for name in _METRICS:
        score = at(results, "scores", name)
        metrics[name] = None if isinstance(score, Nothing) else score
    return {
        **{name: at(results, name) for name in _FROM_RESULTS},
        **metrics,
        **_calibration(at(results, "calibration")),
        "replay_count": at(results, "episode_counts", "scored"),
        "score_intervals": documents.at(AGGREGATE, "score_intervals"),
    }


def _calibration(measured: JsonValue | Nothing) -> _Fields:
    """Return what stated probabilities came to; null where none could be, or too few were."""
    if measured is None:
        return {"brier_score": None, "ece": None}
    ece = at(measured, "ece")
    return {
        "brier_score": at(measured, "brier_score"),
        "ece": None if ece is None else at(ece, "value"),
    }


def _expect_sealed(sources: CertificateSources) -> _Fields:
    detail, moment = sources.trail.detail("sealed"), at(sources.trail.entry("sealed"), "at")
    return {
        "issuer": at(detail, "issuer"),
        "issued_at": moment,
        "theatre_resolved_at": moment,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailSources:
    """What the trail is checked against; a gap is NOTHING, or None where there is no plan."""

    plan: CommittedPlan | None
    theatre_id: str | Nothing
    commitment_hash: str | Nothing
    episodes: int | Nothing
    calls: CallFacts
    sanitiser: JsonValue | Nothing


def check_trail_facts(
    trail: AuditTrail, documents: Documents, sources: TrailSources, ledger: Ledger
) -> None:
    """Finish the check `audit-chain`."""
    sealed_at = at(trail.entry("sealed"), "at")
    expected: dict[str, JsonValue | Nothing] = {
        "created/template_id": NOTHING if sources.plan is None else sources.plan.template_id,
        "activated/episodes": sources.episodes,
        "activated/adapters": NOTHING,
        "activated/scorers": documents.at(RECEIPT, "scorer_pins"),
        "activated/computations": NOTHING,
        "activated/sanitiser": sources.sanitiser,
        "activated/isolation": NOTHING,
        "sealed/certificate_id": None
        if documents.is_reproduction
        else certificate_id(sources.theatre_id, sources.commitment_hash),
        "sealed/issued_at": sealed_at,
        "sealed/theatre_resolved_at": sealed_at,
    }
    if sources.plan is not None:
        expected["activated/isolation"] = isolation_by_construct(sources.plan, trail)
        expected["activated/adapters"] = _adapters(sources.plan, trail, sources.calls, ledger)
        expected["activated/computations"] = computation_versions(sources.plan, trail)
        if sources.plan.sanitising is None:
            expected["activated/sanitiser"] = None
        if sources.plan.rubrics:
            expected["activated/authors"] = _authors(sources.plan, trail)
    check_audit_facts(
        trail,
        expected=expected,
        audit_head=trail.head
        if documents.is_reproduction
        else documents.at(CERTIFICATE, "audit_head"),
        ledger=ledger,
    )


def _authors(plan: CommittedPlan, trail: AuditTrail) -> JsonObject:
    """Return construct → author as the trail has it, who is its issuer's word: a name, or null."""
    named = text_members(trail.detail("activated", "authors"))
    return {hop.construct_id: named.get(hop.construct_id) for hop in plan.hops}


def _adapters(
    plan: CommittedPlan, trail: AuditTrail, calls: CallFacts, ledger: Ledger
) -> JsonObject:
    """Return construct → adapter as the records have it; of one never called, as the trail has."""
    adapters: JsonObject = {}
    for hop in plan.hops:
        named = trail.detail("activated", "adapters", hop.construct_id)
        seen = calls.adapters.get(hop.construct_id, named)
        try:
            require_adapter(plan, seen)
        except DefectError as defect:
            ledger.wrong(CheckId.AUDIT_CHAIN, f"activated with {defect.expected}", defect.actual)
        adapters[hop.construct_id] = None if isinstance(seen, Nothing) else seen
    return adapters


def isolation_by_construct(plan: CommittedPlan | None, trail: AuditTrail) -> JsonObject:
    """Return construct → what was closed to it; nothing where that is not said in its form."""
    found: JsonObject = {}
    for hop in () if plan is None else plan.hops:
        one = trail.detail("activated", "isolation", hop.construct_id)
        found[hop.construct_id] = one if is_isolation(one) else NOTHING_CLOSED
    return found


def name_what_nothing_settles(documents: Documents, trail: AuditTrail, ledger: Ledger) -> None:
    """Note who made the bundle, when, and what else there was, and what would settle it."""
    issued = trail.detail("sealed") if documents.is_reproduction else documents.at(CERTIFICATE)
    issuer = render(at(issued, "issuer"))
    ledger.unanchored(
        CheckId.ISSUER_IDENTITY, f"{issuer} by its own word; a signature would settle it"
    )
    issued_at = render(at(issued, "issued_at"))
    ledger.unanchored(
        CheckId.TIMES_AND_LATENCIES,
        f"issued {issued_at} by its issuer's word; a public log of commitments would settle it",
    )
    ledger.unanchored(
        CheckId.HISTORY,
        f"{history_summary(documents)}; a public log of all runs and disputes would settle it",
    )
