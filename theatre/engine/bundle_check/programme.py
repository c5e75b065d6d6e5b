"""What each step of the committed programme came to, recomputed (docs/evidence.md).

Source: contract/template.md, "Programme semantics". Computations are the installed ones, given
by the caller: one of another version than the trail names leaves the check unavailable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.audit import AuditTrail
from theatre.engine.bundle_check.chain import INVOCATION
from theatre.engine.bundle_check.documents import RESOLUTION, Documents
from theatre.engine.bundle_check.episode_lines import episode_lines
from theatre.engine.bundle_check.episodes import EpisodeEvidence
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.ground_truth import GroundTruth, bare_lines
from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    shown,
    text_members,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.steps import EPISODES, CommittedComputation, CommittedStep
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Computation
from theatre.engine.schema_registry import SchemaRegistry


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
    """Make the check `resolution`: the document, and the steps that the trail reports."""
    results = _Results(sources, documents, ledger)
    steps = [results.entry(number, step) for number, step in enumerate(sources.plan.steps)]
    expected: JsonObject = {"status": "completed", "steps": list(steps)}
    ledger.compare(CheckId.RESOLUTION, RESOLUTION, expected, documents.at(RESOLUTION))
    settled: list[JsonValue] = [step for step in steps if step["type"] != INVOCATION]
    ledger.compare(CheckId.RESOLUTION, "the steps in the trail", settled, sources.trail.steps)
    ledger.completed(CheckId.RESOLUTION, f"{len(steps)} steps")


def computation_versions(plan: CommittedPlan, trail: AuditTrail) -> JsonObject:
    """Return what the trail has to say of computations: one version for each committed name."""
    recorded = text_members(trail.detail("activated", "computations"))
    names = {step.computation.name for step in plan.steps if step.computation is not None}
    return {name: recorded.get(name) for name in sorted(names)}


class _Results:
    """Recomputes the result of each step."""

    def __init__(self, sources: ProgrammeSources, documents: Documents, ledger: Ledger) -> None:
        self._sources = sources
        self._documents = documents
        self._ledger = ledger
        self._versions = text_members(sources.trail.detail("activated", "computations"))

    def entry(self, number: int, step: CommittedStep) -> JsonObject:
        """Return the entry of step `number` in `resolution.json`."""
        return {
            "step_id": step.step_id,
            "type": step.type,
            "status": "completed",
            "result": self._result(number, step),
        }

    def _result(self, number: int, step: CommittedStep) -> JsonObject:
        calls, results_hash = self._sources.evidence.calls, self._sources.results_hash
        if step.type == INVOCATION:
            return {"episodes_recorded": calls.recorded, "episodes_discarded": calls.discarded}
        if step.computation is None:
            return {"results_hash": None if isinstance(results_hash, Nothing) else results_hash}
        named = step.computation
        return {
            "computation": f"{named.name}@{self._versions.get(named.name, '?')}",
            "over": named.over,
            "output": self._output(number, named),
        }

    def _output(self, number: int, named: CommittedComputation) -> JsonValue:
        """Return the recomputed output; the stored one where none can be had."""
        try:
            computed = self._computed(named)
        except DefectError as defect:
            self._ledger.wrong(CheckId.RESOLUTION, defect.expected, defect.actual)
        else:
            if not isinstance(computed, Cause):
                return computed
            self._ledger.cannot(CheckId.RESOLUTION, computed)
        stored = self._documents.at(RESOLUTION, "steps", number, "result", "output")
        return None if isinstance(stored, Nothing) else stored

    def _computed(self, named: CommittedComputation) -> JsonObject | Cause:
        sources, version = self._sources, self._versions.get(named.name)
        computation = sources.installed.get(named.name)
        if computation is None or computation.version != version:
            pin = f"{named.name}@{version or '?'}"
            at_hand = "none" if computation is None else computation.pin
            text = f"computation {pin} is recorded and {at_hand} installed"
            return Cause(text, unavailable=True)
        schema = computation.params_schema
        for violation in sources.registry.validate_inline(schema, named.params):
            return Cause(f"params of {named.name}{violation.pointer}: {violation.detail}")
        lines = self._lines(named)
        return lines if isinstance(lines, Cause) else _run(computation, lines, named.params)

    def _lines(self, named: CommittedComputation) -> Iterator[bytes] | Cause:
        sources, evidence = self._sources, self._sources.evidence
        if named.over != EPISODES:
            return bare_lines(sources.folder, sources.plan.dataset_paths[named.over])
        if isinstance(evidence.aggregate, Cause):
            return evidence.aggregate
        if sources.ground_truth is None or isinstance(sources.ground_truth.gold, Cause):
            return Cause("the ground truth cannot be read")
        gold = sources.ground_truth.gold
        return episode_lines(sources.folder, sources.plan, gold, evidence.outcomes)


def _run(computation: Computation, lines: Iterator[bytes], params: JsonObject) -> JsonObject:
    """Run a computation; a plug-in may raise anything, which is a defect of this bundle's check."""
    try:
        output = computation.compute(lines, params)
        canonical_bytes(output)
    except DefectError:
        raise
    except CanonicalisationError as error:
        raise DefectError(f"a JSON object of {computation.pin}", str(error)) from error
    except Exception as error:  # a plug-in may raise anything: that is a defect
        raise DefectError(f"an output of {computation.pin}", type(error).__name__) from error
    if not isinstance(output, dict):
        raise DefectError(f"a JSON object of {computation.pin}", shown(output))
    return output
