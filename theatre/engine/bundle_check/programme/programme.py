"""What the steps of a programme came to, held against resolution, trail and aggregate.

Source: docs/evidence.md, `resolution.json` and `computed` in `aggregate.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from theatre.engine.bundle_check.commitment.chain import INVOCATION
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.commitment.rubrics import AGGREGATION
from theatre.engine.bundle_check.programme.followed_programme import (
    COMPLETED,
    FAILED,
    SKIPPED,
    FollowedProgramme,
    ProgrammeSources,
)
from theatre.engine.bundle_check.reading.documents import RESOLUTION, Documents
from theatre.engine.bundle_check.reading.json_values import Nothing, text_members
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.scores.episodes import EpisodeEvidence
from theatre.engine.bundle_check.trail.audit import AuditTrail
from theatre.engine.canonical_json import JsonObject, JsonValue


def with_computed(
    evidence: EpisodeEvidence, followed: FollowedProgramme, ledger: Ledger
) -> EpisodeEvidence:
    """Return `evidence` with the outputs that were committed to stand in its aggregate."""
    if isinstance(evidence.aggregate, Cause) or not followed.in_aggregate:
        return evidence
    if followed.unknown is not None:
        ledger.cannot(CheckId.AGGREGATE, followed.unknown)
    whole = evidence.aggregate | {"computed": followed.in_aggregate}
    return replace(evidence, aggregate=evidence.lines.within(whole))


def check_resolution(
    documents: Documents,
    sources: ProgrammeSources,
    followed: FollowedProgramme,
    results_hash: JsonValue | Nothing,
    ledger: Ledger,
) -> None:
    """Make the check `resolution`: the document, and what the trail reports of the steps."""
    hashed = None if isinstance(results_hash, Nothing) else results_hash
    steps = [
        entry | {"result": {"results_hash": hashed}}
        if (entry["type"], entry["status"]) == (AGGREGATION, COMPLETED)
        else entry
        for entry in followed.entries
    ]
    expected: JsonObject = {"status": "completed", "steps": [*steps]}
    ledger.compare(CheckId.RESOLUTION, RESOLUTION, expected, documents.at(RESOLUTION))
    told = _told(sources.plan, steps)
    ledger.compare(CheckId.RESOLUTION, "the steps in the trail", told, sources.trail.settled)
    ledger.completed(CheckId.RESOLUTION, f"{len(steps)} steps")


def computation_versions(plan: CommittedPlan, trail: AuditTrail) -> JsonObject:
    """Return what the trail has to say of computations: one version for each committed name."""
    recorded = text_members(trail.detail("activated", "computations"))
    names = {step.computation.name for step in plan.steps if step.computation is not None}
    return {name: recorded.get(name) for name in sorted(names)}


def _told(plan: CommittedPlan, entries: Sequence[JsonObject]) -> list[JsonValue]:
    """Return the events that a programme with these entries leaves in the trail."""
    told: list[JsonValue] = []
    for step, entry in zip(plan.steps, entries, strict=True):
        if step.step_id in plan.rubrics and entry["status"] != SKIPPED:
            told.append({"event_type": "hitl_opened", "detail": step.step_id})
        if step.type != INVOCATION:
            told.append({"event_type": f"step_{entry['status']}", "detail": entry})
        if entry["status"] == FAILED:
            escalation: JsonObject = {"step_id": step.step_id, "to": step.escalation}
            told.append({"event_type": "escalated", "detail": escalation})
    return told
