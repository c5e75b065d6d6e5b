"""What the audit trail says of other files: the episodes, the adapters, the certificate's id.

Source: docs/evidence.md, "The audit trail".
"""

from __future__ import annotations

from dataclasses import dataclass

from theatre.engine.bundle_check.certificate.certificate_check import certificate_id
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.invocations.call_facts import CallFacts
from theatre.engine.bundle_check.invocations.calls import require_adapter
from theatre.engine.bundle_check.programme.programme import computation_versions
from theatre.engine.bundle_check.reading.documents import CERTIFICATE, RECEIPT, Documents
from theatre.engine.bundle_check.reading.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.bundle_check.trail.audit import AuditTrail, check_audit_facts
from theatre.engine.canonical_json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailSources:
    """What the trail is held against; a gap is NOTHING, or None where there is no plan."""

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
        "sealed/certificate_id": certificate_id(sources.theatre_id, sources.commitment_hash),
        "sealed/issued_at": sealed_at,
        "sealed/theatre_resolved_at": sealed_at,
    }
    if sources.plan is not None:
        expected["activated/adapters"] = _adapters(sources.plan, trail, sources.calls, ledger)
        expected["activated/computations"] = computation_versions(sources.plan, trail)
        if sources.plan.sanitising is None:
            expected["activated/sanitiser"] = None
        if sources.plan.rubrics:
            expected["activated/authors"] = _authors(sources.plan, trail)
    check_audit_facts(
        trail,
        expected=expected,
        audit_head=documents.at(CERTIFICATE, "audit_head"),
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
