"""The tier: its facts taken from the evidence once more, and assessed once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from theatre.engine.bundle_check.arithmetic import Document, Plan, problems_of_history, tier
from theatre.engine.bundle_check.batches import STATUSES
from theatre.engine.bundle_check.commitment import bare_lines
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    CERTIFICATE,
    RECEIPT,
    RESOLUTION,
    TIER,
    Documents,
)
from theatre.engine.bundle_check.measures import (
    committed_qualifications,
    counted_controls,
    unqualified_measures,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import (
    Cause,
    CheckId,
    DefectError,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.resolution import ReplayedProgramme, step_caps
from theatre.engine.bundle_check.results import NO_TEMPLATE, RunEvidence
from theatre.engine.canonical_json import JsonObject, JsonValue

ON_CERTIFICATE = {"verification_tier": "tier", "caps": "caps", "expires_at": "expires_at"}
"""Member of the certificate → of the assessment in `tier.json`."""

_WORDS = ("scored", "missing", "not_applicable", "declined", "unscored")
_OUTCOMES = ("total", "scored", "timeout", "error", "refused", "unscored", "not_run")


def check_tier(
    evidence: Evidence,
    run: RunEvidence,
    followed: ReplayedProgramme | None,
    results: JsonObject | Nothing,
    audit: JsonValue | Nothing,
    *,
    complete: bool,
) -> None:
    """Make the check `tier`: `tier.json`, and what the certificate says of it.

    `results` and `audit` are recomputed where they can be, else as they are stored.
    """
    documents, ledger, plan = evidence.documents, evidence.ledger, evidence.plan
    if plan is None or followed is None or isinstance(results, Nothing):
        ledger.cannot(
            CheckId.TIER, NO_TEMPLATE if plan is None else Cause(f"{AGGREGATE} cannot be read")
        )
        return
    caps = step_caps(plan, followed)
    facts = _facts(evidence, plan, run, results, audit, caps, complete=complete)
    history, sealed_at = documents.at(TIER, "history"), str(evidence.sealed_at)
    known = history if isinstance(history, dict) else {}
    wrong, assessment = None, Document()
    try:
        found = problems_of_history(known, evidence.theatre_id, sealed_at)
        wrong = next((f"expected {expected}, got {actual}" for expected, actual in found), None)
        assessment = assessment if wrong else tier(facts, known, resolved_at=sealed_at)
    except (ValueError, OverflowError) as error:
        wrong = str(error)
    if wrong:
        ledger.wrong(CheckId.TIER, "facts and a history that a tier follows from", wrong)
        return
    recomputed: JsonObject = {"facts": facts, "history": known, "assessment": assessment}
    ledger.compare(CheckId.TIER, TIER, recomputed, documents.at(TIER))
    for name, member in () if documents.is_reproduction else ON_CERTIFICATE.items():
        seen = documents.at(CERTIFICATE, name)
        ledger.compare(CheckId.TIER, f"{name} of the certificate", assessment[member], seen)
    ledger.completed(CheckId.TIER, f"{assessment['tier']}")
    # Runs, telemetry and disputes are the issuer's word: an invented history must not be `valid`.
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


def _facts(
    evidence: Evidence,
    plan: CommittedPlan,
    run: RunEvidence,
    aggregate: JsonObject,
    audit: JsonValue | Nothing,
    caps: Sequence[str],
    *,
    complete: bool,
) -> JsonObject:
    calls, closed, documents = run.calls, evidence.isolation, evidence.documents
    kinds = text_members(documents.at(RECEIPT, "scorer_kinds"))
    adapter_pin = calls.adapters.get(plan.construct_id, "")
    seen = _counts(aggregate, "episode_counts", words=_OUTCOMES)
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
            name: _counts(aggregate, "score_counts", name, words=_WORDS) for name in plan.scorers
        },
        "distinct_inputs": _number(audit, "distinct_scored_inputs"),
        "criterion_distinct_inputs": {
            name: _number(audit, "criteria", name, "distinct_inputs") for name in plan.scorers
        },
        "unqualified_measures": unqualified_measures(
            plan.document,
            kinds,
            text_members(documents.at(RECEIPT, "scorer_pins")),
            qualifications_in(evidence, plan),
            controls_in(evidence, plan),
        ),
        "missing_pins": [name for name, pin in pins.items() if not pin],
        "version_mismatches": calls.version_mismatches,
        "determinism_differences": calls.determinism_differences,
        "scorers_committed": plan.scorers_committed,
        "bundle_complete": complete,
        "commitment_verifiable": evidence.ledger.passed(CheckId.COMMITMENT),
        # A run that ended before its last episode is incomplete (docs/contract/evidence.md §8).
        "extra_caps": [
            *(["episodes-not-run"] if counts["not_run"] else []),
            *plan.caps,
            # Called in the plain form, a construct reports no version
            # (docs/contract/evidence.md §8).
            *(["version-unreported"] if adapter_pin.startswith("plain_") else []),
            *(["reproduction"] if documents.is_reproduction else []),
            # Who can read answers, or the run itself, needs no skill.
            *([] if closed["files"] and closed["processes"] else ["construct-not-isolated"]),
            *Plan(plan.document).template_caps(),
            *_missing_human_parts(aggregate),
            *sorted(caps),
        ],
        **_answers(aggregate, plan),
    }


def _answers(aggregate: JsonObject, plan: CommittedPlan) -> JsonObject:
    """Return how many answers failed and were refused, where episodes are asked more than once."""
    if plan.repeats == 1:
        return {}
    ended = cast(
        "dict[str, int]", _counts(aggregate, "repeats", "statuses", words=sorted(STATUSES))
    )
    return {
        "answers": {
            "asked": sum(ended.values()),
            "failed": ended["timeout"] + ended["error"],
            "refused": ended["refused"],
        }
    }


def qualifications_in(evidence: Evidence, plan: CommittedPlan) -> dict[str, Document | None]:
    """Return criterion → the qualification that a template names; None for one that is none."""

    def lines(name: str) -> list[bytes]:
        path = plan.dataset_paths.get(name)
        if path is None or path not in evidence.folder.files:
            return []
        try:
            return [*bare_lines(evidence.folder, path)]
        except DefectError:
            return []

    return committed_qualifications(plan.document, lines)


def controls_in(evidence: Evidence, plan: CommittedPlan) -> dict[str, Document]:
    """Return criterion → what control items showed; the steps have a check of their own."""
    return counted_controls(plan.document, evidence.documents.at(RESOLUTION, "steps"))


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


def _number(audit: JsonValue | Nothing, *place: str) -> int:
    seen = at(audit, *place)
    return seen if isinstance(seen, int) else 0
