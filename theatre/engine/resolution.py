"""The resolution programme: committed steps, executed in committed order.

Source: contract/template.md, "Programme semantics". `construct_invocation` steps run for each
episode while the theatre is ACTIVE; the others run once in SETTLING. A programme with a step that
this version cannot execute is refused before the first call, so no committed step is ever silently
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError

INVOCATION = "construct_invocation"
AGGREGATION = "aggregation"
COMPUTATION = "deterministic_computation"
EPISODE_STEPS = frozenset({INVOCATION})
"""Step types that run for each episode in ACTIVE; all others run once in SETTLING."""

EXECUTABLE = frozenset({INVOCATION, AGGREGATION, COMPUTATION})


class ProgrammeStep(Protocol):
    """What the programme needs to know of a committed step."""

    @property
    def step_id(self) -> str:
        """Return the id, unique in its programme."""

    @property
    def type(self) -> str:
        """Return the committed step type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one step came to. `result` depends on the evidence alone, never on the clock."""

    step_id: str
    type: str
    result: JsonObject

    def as_document(self) -> JsonObject:
        """Return the step's entry in `resolution.json`."""
        return {
            "step_id": self.step_id,
            "type": self.type,
            "status": "completed",
            "result": self.result,
        }


class ResolutionStateMachine:
    """One committed programme, checked before anything runs."""

    def __init__(self, steps: Sequence[ProgrammeStep]) -> None:
        """Raise ProgrammeError for a step that cannot be executed, or no call at all."""
        unknown = [f"{step.step_id} ({step.type})" for step in steps if step.type not in EXECUTABLE]
        if unknown:
            raise ProgrammeError(
                f"expected steps of type {', '.join(sorted(EXECUTABLE))}; this version cannot "
                f"execute: {', '.join(unknown)}"
            )
        self.steps = tuple(steps)
        if not any(step.type == INVOCATION for step in steps):
            raise ProgrammeError("expected a construct_invocation step, got none")

    def settle(self, outcomes: Mapping[str, JsonObject]) -> tuple[StepResult, ...]:
        """Return the result of every step, given what each came to by its id."""
        return tuple(
            StepResult(step_id=step.step_id, type=step.type, result=outcomes[step.step_id])
            for step in self.steps
        )


def resolution_document(results: Sequence[StepResult]) -> JsonObject:
    """Return `resolution.json`."""
    return {"status": "completed", "steps": [result.as_document() for result in results]}
