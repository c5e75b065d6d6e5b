"""What each step of the committed programme came to, recomputed (docs/evidence.md).

Source: contract/template.md, "Programme semantics". Computations are the installed ones, given
by the caller: one of another version than the trail names leaves the check unavailable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.audit import AuditTrail
from theatre.engine.bundle_check.chain import INVOCATION
from theatre.engine.bundle_check.computed_steps import (
    FAILURES,
    ComputationSources,
    Failed,
    computed,
)
from theatre.engine.bundle_check.documents import RESOLUTION, Documents
from theatre.engine.bundle_check.episodes import EpisodeEvidence
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.ground_truth import GroundTruth
from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.panels import Panel, nine_places
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.steps import CommittedComputation, CommittedStep
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Computation
from theatre.engine.schema_registry import SchemaRegistry

COMPLETED, FAILED, SKIPPED = "completed", "failed", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgrammeSources:
    """What the results of steps are recomputed from; `installed` are computations by name."""

    plan: CommittedPlan
    folder: BundleFolder
    ground_truth: GroundTruth | None
    evidence: EpisodeEvidence
    results_hash: JsonValue | Nothing
    trail: AuditTrail
    installed: Mapping[str, Computation]
    registry: SchemaRegistry


def check_resolution(documents: Documents, sources: ProgrammeSources, ledger: Ledger) -> None:
    """Make the check `resolution`: the document, and what the trail reports of the steps."""
    steps, told = _followed(_Results(sources, documents, ledger), sources.plan)
    expected: JsonObject = {"status": "completed", "steps": list(steps)}
    ledger.compare(CheckId.RESOLUTION, RESOLUTION, expected, documents.at(RESOLUTION))
    ledger.compare(CheckId.RESOLUTION, "the steps in the trail", told, sources.trail.settled)
    ledger.completed(CheckId.RESOLUTION, f"{len(steps)} steps")


def computation_versions(plan: CommittedPlan, trail: AuditTrail) -> JsonObject:
    """Return what the trail has to say of computations: one version for each committed name."""
    recorded = text_members(trail.detail("activated", "computations"))
    names = {step.computation.name for step in plan.steps if step.computation is not None}
    return {name: recorded.get(name) for name in sorted(names)}


def _followed(results: _Results, plan: CommittedPlan) -> tuple[list[JsonObject], list[JsonValue]]:
    """Follow the programme; return its entries, and the events that it leaves in the trail."""
    entries: list[JsonObject] = []
    told: list[JsonValue] = []
    awaited: str | None = None
    for number, step in enumerate(plan.steps):
        awaited = None if awaited == step.step_id else awaited
        if awaited is not None and step.type != INVOCATION:
            entries.append(_entry(step, SKIPPED, {}))
        else:
            if step.step_id in plan.rubrics:
                told.append({"event_type": "hitl_opened", "detail": step.step_id})
            entries.append(results.entry(number, step))
        if step.type != INVOCATION:
            told.append({"event_type": f"step_{entries[-1]['status']}", "detail": entries[-1]})
        if entries[-1]["status"] == FAILED:
            awaited = step.escalation
            escalation: JsonObject = {"step_id": step.step_id, "to": step.escalation}
            told.append({"event_type": "escalated", "detail": escalation})
    return entries, told


def _entry(step: CommittedStep, status: str, result: JsonObject) -> JsonObject:
    return {"step_id": step.step_id, "type": step.type, "status": status, "result": result}


class _Results:
    """Recomputes the result of each step that was carried out."""

    def __init__(self, sources: ProgrammeSources, documents: Documents, ledger: Ledger) -> None:
        self._sources = sources
        self._documents = documents
        self._ledger = ledger
        self._versions = text_members(sources.trail.detail("activated", "computations"))

    def entry(self, number: int, step: CommittedStep) -> JsonObject:
        """Return the entry of step `number` in `resolution.json`."""
        if step.computation is not None:
            return self._computed(number, step, step.computation)
        if step.step_id in self._sources.plan.rubrics:
            return self._rated(step, self._sources.evidence.panels[step.step_id])
        calls, results_hash = self._sources.evidence.calls, self._sources.results_hash
        if step.type == INVOCATION:
            counts = {"episodes_recorded": calls.recorded, "episodes_discarded": calls.discarded}
            return _entry(step, COMPLETED, {**counts})
        hashed = None if isinstance(results_hash, Nothing) else results_hash
        return _entry(step, COMPLETED, {"results_hash": hashed})

    def _rated(self, step: CommittedStep, panel: Panel) -> JsonObject:
        if panel.enough:
            result: JsonObject = {
                "items": len(panel.items),
                "scorers": len(panel.counting),
                "human_mean": nine_places(panel.mean),
            }
            return _entry(step, COMPLETED, result)
        if panel.rubric.timeout_seconds is None:
            expected = f"{panel.rubric.minimum_scorers} people who scored every item"
            self._ledger.wrong(
                CheckId.RESOLUTION, f"step {step.step_id} with {expected}", f"{len(panel.complete)}"
            )
        return self._failed(step, "hitl-timeout", panel.lateness)

    def _computed(
        self, number: int, step: CommittedStep, named: CommittedComputation
    ) -> JsonObject:
        """Return what the computation comes to; as it is stored where that cannot be known."""
        outcome = self._outcome(named)
        stored = self._documents.at(RESOLUTION, "steps", number)
        told = at(stored, "result", "error_detail")
        detail = told if isinstance(told, str) else ""
        if outcome is None and at(stored, "status") == FAILED:
            reason = at(stored, "result", "reason")
            known = isinstance(reason, str) and reason in FAILURES
            return self._failed(step, str(reason) if known else "", detail)
        if isinstance(outcome, Failed):
            accepted = detail if outcome.accepts(detail) else outcome.detail
            return self._failed(step, outcome.reason, accepted)
        output = at(stored, "result", "output") if outcome is None else outcome
        result: JsonObject = {
            "computation": f"{named.name}@{self._versions.get(named.name, '?')}",
            "over": named.over,
            "output": None if isinstance(output, Nothing) else output,
        }
        return _entry(step, COMPLETED, result)

    def _failed(self, step: CommittedStep, reason: str, detail: JsonValue) -> JsonObject:
        if step.escalation is None:
            expected = f"no bundle of a programme that fails: {step.step_id} ({reason})"
            self._ledger.wrong(CheckId.RESOLUTION, expected, "one")
        result: JsonObject = {
            "reason": reason,
            "error_detail": detail,
            "escalated_to": step.escalation,
        }
        return _entry(step, FAILED, result)

    def _outcome(self, named: CommittedComputation) -> JsonObject | Failed | None:
        """Run the computation; None, noted, where it cannot be known what it comes to."""
        sources = self._sources
        around = ComputationSources(
            plan=sources.plan,
            folder=sources.folder,
            ground_truth=sources.ground_truth,
            evidence=sources.evidence,
            installed=sources.installed,
            versions=self._versions,
            registry=sources.registry,
        )
        try:
            outcome = computed(around, named)
        except DefectError as defect:
            self._ledger.wrong(CheckId.RESOLUTION, defect.expected, defect.actual)
            return None
        if isinstance(outcome, Cause):
            self._ledger.cannot(CheckId.RESOLUTION, outcome)
            return None
        return outcome
