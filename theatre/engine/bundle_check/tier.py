"""The tier: its facts taken from the evidence once more, and assessed once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from theatre.engine.bundle_check.arithmetic import Plan, parsed_time, tier
from theatre.engine.bundle_check.batches import CallFacts
from theatre.engine.bundle_check.folder import CERTIFICATE, TIER, Documents
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import (
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.schema_registry import SchemaRegistry

ON_CERTIFICATE = {"verification_tier": "tier", "caps": "caps", "expires_at": "expires_at"}
"""Member of the certificate → of the assessment in `tier.json`."""

_WORDS = ("scored", "missing", "not_applicable", "declined", "unscored")
_OUTCOMES = ("total", "scored", "timeout", "error", "refused", "unscored", "not_run")
_TIMES = {"resolved_at", "start", "end", "confirmed_at", "at"}
_NAMED_BY = {"runs": "theatre_id", "disputes": "dispute_id"}
_History = dict[str, list[dict[str, str]]]
_NAME: JsonObject = {"type": "string", "minLength": 1}
_TIME: JsonObject = {"type": "string", "pattern": "^(19[7-9]|[2-9][0-9]{2})[0-9]-"}
_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_UUID: JsonObject = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
}
_ABOUT: JsonObject = {"construct_id": _NAME, "construct_version": _NAME}


def _list_of(**members: JsonValue) -> JsonObject:
    return {"type": "array", "items": _exactly(**members)}


def _exactly(**members: JsonValue) -> JsonObject:
    return {
        "type": "object",
        "properties": members,
        "required": [*members],
        "additionalProperties": False,
    }


_HISTORY = _exactly(
    runs=_list_of(
        **_ABOUT,
        theatre_id=_UUID,
        tier={"enum": ["UNVERIFIED", "BACKTESTED", "PROVEN"]},
        resolved_at=_TIME,
        results_hash=_SHA256,
    ),
    telemetry=_list_of(**_ABOUT, start=_TIME, end=_TIME, confirmed_at=_TIME),
    attestations=_list_of(
        attester=_NAME, independent={"type": "boolean"}, results_hash=_SHA256, at=_TIME
    ),
    disputes=_list_of(
        dispute_id=_NAME, status={"enum": ["filed", "admitted", "resolved"]}, at=_TIME
    ),
    signals=_list_of(**_ABOUT, source=_NAME, consistent={"type": "boolean"}, at=_TIME),
)
"""The form of a history (docs/contract/evidence.md §10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """What the facts are taken from; `aggregate` and `audit` are recomputed where they can be."""

    plan: CommittedPlan
    theatre_id: str | Nothing
    calls: CallFacts
    isolation: JsonObject
    aggregate: JsonObject
    audit: JsonObject
    bundle_complete: bool
    commitment_verifiable: bool
    is_reproduction: bool
    resolved_at: JsonValue | Nothing
    step_caps: Sequence[str]
    scorer_kinds: Mapping[str, str]


def check_tier(
    documents: Documents,
    evidence: TierEvidence | Cause,
    registry: SchemaRegistry,
    ledger: Ledger,
) -> None:
    """Make the check `tier`: `tier.json`, and what the certificate says of it."""
    if isinstance(evidence, Cause):
        ledger.cannot(CheckId.TIER, evidence)
        return
    facts, history = _facts(evidence), documents.at(TIER, "history")
    try:
        known = _known(history, registry)
        _require_a_past(known, evidence)
        assessment = tier(facts, known, resolved_at=str(evidence.resolved_at))
    except (DefectError, ValueError, OverflowError) as error:
        ledger.wrong(CheckId.TIER, "facts and a history that a tier follows from", str(error))
        return
    recomputed: JsonObject = {"facts": facts, "history": known, "assessment": assessment}
    ledger.compare(CheckId.TIER, TIER, recomputed, documents.at(TIER))
    for name, member in () if documents.is_reproduction else ON_CERTIFICATE.items():
        seen = documents.at(CERTIFICATE, name)
        ledger.compare(CheckId.TIER, f"{name} of the certificate", assessment[member], seen)
    ledger.completed(CheckId.TIER, f"{assessment['tier']}")
    if known["disputes"] or assessment["tier"] == "PROVEN":
        ledger.depends_on_outside(f"{assessment['tier']} by a history that only a log would settle")


def history_summary(documents: Documents) -> str:
    """Return how much history the tier was judged by, for the line that nothing can settle."""
    history = documents.at(TIER, "history")
    if not isinstance(history, dict):
        return "no history recorded"
    counts = (
        f"{name} {len(items)}" for name, items in sorted(history.items()) if isinstance(items, list)
    )
    return f"recorded: {', '.join(counts)}"


def _known(history: JsonValue | Nothing, registry: SchemaRegistry) -> JsonObject:
    """Return the recorded history. Raises DefectError, or ValueError for what is no time."""
    recorded = {} if isinstance(history, Nothing) else history
    for violation in registry.validate_inline(_HISTORY, recorded):
        raise DefectError("a history in its form", f"{violation.pointer}: {violation.detail}")
    known = cast("_History", recorded)
    for item in (item for items in known.values() for item in items):
        for name in _TIMES & item.keys():
            parsed_time(item[name])
    for window in known["telemetry"]:
        if not window["start"] < window["end"] <= window["confirmed_at"]:
            raise DefectError("telemetry with start < end ≤ confirmed_at", render({**window}))
    return cast("JsonObject", recorded)


def _require_a_past(history: JsonObject, evidence: TierEvidence) -> None:
    """Check that each fact is listed once, was known at that time, and is of another run."""
    for sort, items in cast("_History", history).items():
        by = _NAMED_BY.get(sort)
        if len({item[by] if by else canonical_bytes({**item}) for item in items}) < len(items):
            raise DefectError(f"each of the {sort} once", "one of them twice")
        for item in items:
            if item.get("theatre_id") == evidence.theatre_id:
                raise DefectError("a history of other runs", "this run")
            latest = max(item[name] for name in _TIMES & item.keys())
            if latest > str(evidence.resolved_at):
                raise DefectError(f"{sort} not later than {evidence.resolved_at}", latest)


def _facts(evidence: TierEvidence) -> JsonObject:
    plan, calls, closed = evidence.plan, evidence.calls, evidence.isolation
    adapter_pin = calls.adapters.get(plan.construct_id, "")
    seen = _counts(evidence.aggregate, "episode_counts", words=_OUTCOMES)
    counts = cast("dict[str, int]", seen)
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
        "criterion_counts": {
            name: _counts(evidence.aggregate, "score_counts", name, words=_WORDS)
            for name in plan.scorers
        },
        "distinct_inputs": _number(evidence.audit, "distinct_scored_inputs"),
        "criterion_distinct_inputs": {
            name: _number(evidence.audit, "criteria", name, "distinct_inputs")
            for name in plan.scorers
        },
        "unqualified_measures": dict(
            Plan(plan.document).unqualified_measures(evidence.scorer_kinds)
        ),
        "missing_pins": [name for name, pin in pins.items() if not pin],
        "version_mismatches": calls.version_mismatches,
        "determinism_differences": calls.determinism_differences,
        "scorers_committed": plan.scorers_committed,
        "bundle_complete": evidence.bundle_complete,
        "commitment_verifiable": evidence.commitment_verifiable,
        # A run that ended before its last episode is incomplete (docs/contract/evidence.md §8).
        "extra_caps": [
            *(["episodes-not-run"] if counts["not_run"] else []),
            *plan.caps,
            # Called in the plain form, a construct reports no version
            # (docs/contract/evidence.md §8).
            *(["version-unreported"] if adapter_pin.startswith("plain_") else []),
            *(["reproduction"] if evidence.is_reproduction else []),
            # Who can read answers, or the run itself, needs no skill.
            *([] if closed["files"] and closed["processes"] else ["construct-not-isolated"]),
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


def _counts(aggregate: JsonObject, *place: str, words: Sequence[str]) -> dict[str, JsonValue]:
    counts = {word: at(aggregate, *place, word) for word in words}
    return {word: value if isinstance(value, int) else 0 for word, value in counts.items()}


def _number(audit: JsonObject, *place: str) -> int:
    seen = at(audit, *place)
    return seen if isinstance(seen, int) else 0
