"""The tier: its facts taken from the evidence once more, and assessed once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.invocations.call_facts import CallFacts
from theatre.engine.bundle_check.reading.documents import CERTIFICATE, TIER, Documents
from theatre.engine.bundle_check.reading.json_values import Nothing, at
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError, TierRecordError
from theatre.engine.tier_assigner import TierAssigner, TierFacts, TierHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """What the facts are taken from; `aggregate` is the recomputed one where there is one."""

    plan: CommittedPlan
    calls: CallFacts
    aggregate: JsonObject
    bundle_complete: bool
    commitment_verifiable: bool
    resolved_at: JsonValue | Nothing
    step_caps: Sequence[str]


def check_tier(documents: Documents, evidence: TierEvidence | Cause, ledger: Ledger) -> None:
    """Make the check `tier`: `tier.json`, and what the certificate says of it."""
    if isinstance(evidence, Cause):
        ledger.cannot(CheckId.TIER, evidence)
        return
    try:
        facts = TierFacts.from_document(_facts(evidence))
        history = TierHistory.from_document(_recorded(documents, "history"))
        moment = parse_rfc3339(str(evidence.resolved_at))
        assessment = TierAssigner.assign(facts, history, resolved_at=moment).as_document()
    except (TierRecordError, ClockError) as error:
        ledger.wrong(CheckId.TIER, "facts and a history that a tier follows from", str(error))
        return
    recomputed: JsonObject = {
        "facts": facts.as_document(),
        "history": history.as_document(),
        "assessment": assessment,
    }
    ledger.compare(CheckId.TIER, TIER, recomputed, documents.at(TIER))
    for name, member in (
        ("verification_tier", "tier"),
        ("caps", "caps"),
        ("expires_at", "expires_at"),
    ):
        seen = documents.at(CERTIFICATE, name)
        ledger.compare(CheckId.TIER, f"{name} of the certificate", assessment[member], seen)
    ledger.completed(CheckId.TIER, f"{assessment['tier']}")


def history_summary(documents: Documents) -> str:
    """Return how much history the tier was judged by, for the line that nothing can settle."""
    history = documents.at(TIER, "history")
    if not isinstance(history, dict):
        return "no history recorded"
    counts = (
        f"{name} {len(items)}" for name, items in sorted(history.items()) if isinstance(items, list)
    )
    return f"recorded: {', '.join(counts)}"


def _recorded(documents: Documents, member: str) -> JsonValue:
    value = documents.at(TIER, member)
    return None if isinstance(value, Nothing) else value


def _facts(evidence: TierEvidence) -> JsonObject:
    plan, calls = evidence.plan, evidence.calls
    adapter_pin = calls.adapters.get(plan.construct_id, "")
    counts = _episode_counts(evidence.aggregate)
    pins = {
        "construct_version": plan.construct_version,
        "dataset_hash": plan.replay_dataset_hash,
        "scorer_version": plan.scorer_version,
    }
    return {
        "construct_id": plan.construct_id,
        "construct_version": plan.construct_version,
        "adapter_pin": adapter_pin,
        "rehearsal": calls.rehearsal,
        "replay_count": counts["scored"],
        "failures": counts["timeout"] + counts["error"],
        "refusals": counts["refused"],
        "run": counts["total"] - counts["not_run"],
        "total": counts["total"],
        "max_refusal_rate": str(plan.max_refusal_rate),
        "criterion_counts": evidence.aggregate.get("score_counts"),
        "missing_pins": [name for name, pin in pins.items() if not pin],
        "version_mismatches": calls.version_mismatches,
        "determinism_differences": calls.determinism_differences,
        "scorers_committed": plan.scorers_committed,
        "bundle_complete": evidence.bundle_complete,
        "commitment_verifiable": evidence.commitment_verifiable,
        # A run that ended before its last episode is incomplete (docs/evidence.md).
        "extra_caps": [
            *(["episodes-not-run"] if counts["not_run"] else []),
            *plan.caps,
            # Whoever is asked in a plain form reports no version (docs/evidence.md).
            *(["version-unreported"] if adapter_pin.startswith("plain_") else []),
            *_missing_human_parts(evidence.aggregate),
            *sorted(evidence.step_caps),
        ],
    }


def _missing_human_parts(aggregate: JsonObject) -> list[str]:
    """Return a code for each criterion that people were to have a share in, and have none."""
    rated = at(aggregate, "human_scores")
    return sorted(
        f"human-part-missing:{at(entry, 'criterion_id')}"
        for entry in (rated.values() if isinstance(rated, dict) else ())
        if at(entry, "share") is not None and at(entry, "human") is None
    )


def _episode_counts(aggregate: JsonObject) -> dict[str, int]:
    names = ("total", "scored", "timeout", "error", "refused", "unscored", "not_run")
    counts = {name: at(aggregate, "episode_counts", name) for name in names}
    return {name: value if isinstance(value, int) else 0 for name, value in counts.items()}
