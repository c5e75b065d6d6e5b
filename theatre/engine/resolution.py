"""The resolution programme: committed steps, executed in committed order.

Source: contract/template.md, "Programme semantics". `construct_invocation` steps run for each
episode while the theatre is ACTIVE; the others run once in SETTLING. This version executes
`construct_invocation` and `aggregation`; a programme with another type is refused before the
first call, so no committed step is ever silently left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError

INVOCATION = "construct_invocation"
AGGREGATION = "aggregation"
EPISODE_STEPS = frozenset({INVOCATION})
"""Step types that run for each episode in ACTIVE; all others run once in SETTLING."""

EXECUTABLE = frozenset({INVOCATION, AGGREGATION})


class ProgrammeStep(Protocol):
    """What the programme needs to know of a committed step."""

    @property
    def step_id(self) -> str:
        """Return the id, unique in its programme."""

    @property
    def type(self) -> str:
        """Return the committed step type."""

    @property
    def construct_id(self) -> str | None:
        """Return the construct of an invocation step."""


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
        self._steps = tuple(steps)
        if len(self.invocations) != 1:
            raise ProgrammeError(
                "expected exactly one construct_invocation step (chains come later), "
                f"got {len(self.invocations)}"
            )

    @property
    def invocations(self) -> tuple[ProgrammeStep, ...]:
        """Return the steps that call a construct for every episode, in order."""
        return tuple(step for step in self._steps if step.type == INVOCATION)

    def settle(self, *, recorded: int, results_hash: str) -> tuple[StepResult, ...]:
        """Return the result of every step, given the recorded episodes and the aggregate."""
        outcomes: dict[str, JsonObject] = {
            INVOCATION: {"episodes_recorded": recorded},
            AGGREGATION: {"results_hash": results_hash},
        }
        return tuple(
            StepResult(step_id=step.step_id, type=step.type, result=outcomes[step.type])
            for step in self._steps
        )


def resolution_document(results: Sequence[StepResult]) -> JsonObject:
    """Return `resolution.json`."""
    return {"status": "completed", "steps": [result.as_document() for result in results]}
