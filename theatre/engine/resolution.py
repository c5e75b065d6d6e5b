"""The resolution programme: committed steps, executed in committed order.

Source: docs/contract/template.md §5. `construct_invocation` steps run for each
episode while the theatre is ACTIVE; the others run once in SETTLING. A step that fails leads to its
`escalation_path`, and the steps between are skipped; without one the programme fails. A programme
with a step that this version cannot execute is refused before the first call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError

INVOCATION = "construct_invocation"
AGGREGATION = "aggregation"
COMPUTATION = "deterministic_computation"
RUBRIC = "hitl_rubric"
EPISODE_STEPS = frozenset({INVOCATION})
"""Step types that run for each episode in ACTIVE; all others run once in SETTLING."""

EXECUTABLE = frozenset({INVOCATION, AGGREGATION, COMPUTATION, RUBRIC})

CONTROLS = "controls-"
"""What begins so among the `findings` in a computation's output stands on the certificate."""

FAIL = "FAIL"
"""The escalation that ends the programme."""


class StepStatus(StrEnum):
    """How a step ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class ProgrammeStatus(StrEnum):
    """Where a programme is. PENDING_HITL: people must answer before it continues."""

    RUNNING = "running"
    PENDING_HITL = "pending_hitl"
    COMPLETED = "completed"
    FAILED = "failed"


class ProgrammeStep(Protocol):
    """What the programme needs to know of a committed step."""

    @property
    def step_id(self) -> str:
        """Return the id, unique in its programme."""

    @property
    def type(self) -> str:
        """Return the committed step type."""

    @property
    def escalation_path(self) -> str | None:
        """Return where a failure leads: a later step's id, FAIL, or None (which means FAIL)."""

    @property
    def walks_a_chain(self) -> bool:
        """Return whether it says of a log, in `output.intact`, if it is one intact chain."""

    @property
    def guards_integrity(self) -> bool:
        """Return whether the evidence cannot be relied on where the step was not completed."""


class Completed(NamedTuple):
    """A step was carried out; `result` depends on the evidence alone, never on the clock."""

    result: JsonObject


class Failed(NamedTuple):
    """A step could not be carried out: a stable reason, and what was seen."""

    reason: str
    error_detail: str


StepOutcome: TypeAlias = Completed | Failed


class StepResult(NamedTuple):
    """The result of one step."""

    step_id: str
    type: str
    status: StepStatus
    result: JsonObject

    def as_document(self) -> JsonObject:
        """Return the step's entry in `resolution.json`."""
        return {
            "step_id": self.step_id,
            "type": self.type,
            "status": self.status.value,
            "result": self.result,
        }


@dataclass(frozen=True, slots=True)
class ResolutionStateMachine:
    """A programme and how far it is. `advance` gives the next one; nothing is changed in place.

    Every advance settles at least one step, and no step twice: a programme always ends.
    `results` has what is settled, in committed order. Steps before index `resume_at` are skipped,
    and `failure` says why the programme failed, if it did.
    """

    steps: Sequence[ProgrammeStep]
    results: tuple[StepResult, ...] = ()
    resume_at: int = 0
    failure: Failed | None = None

    def __post_init__(self) -> None:
        """Raise ProgrammeError for a programme that cannot be executed as written."""
        unknown = [f"{s.step_id} ({s.type})" for s in self.steps if s.type not in EXECUTABLE]
        if unknown:
            raise ProgrammeError(
                f"expected steps of type {', '.join(sorted(EXECUTABLE))}; this version cannot "
                f"execute: {', '.join(unknown)}"
            )
        if not any(step.type == INVOCATION for step in self.steps):
            raise ProgrammeError("expected a construct_invocation step, got none")
        for index, step in enumerate(self.steps):
            if _find_target(self.steps, index) <= index:
                raise ProgrammeError(
                    f"expected the escalation_path of step {step.step_id} to be a later step or "
                    f"{FAIL}, got {step.escalation_path:.100}"
                )

    @property
    def status(self) -> ProgrammeStatus:
        """Return where the programme is."""
        if self.failure is not None:
            return ProgrammeStatus.FAILED
        step = self.current
        if step is None:
            return ProgrammeStatus.COMPLETED
        return ProgrammeStatus.PENDING_HITL if step.type == RUBRIC else ProgrammeStatus.RUNNING

    @property
    def current(self) -> ProgrammeStep | None:
        """Return the step that must be carried out next; None at the end."""
        at_end = self.failure is not None or len(self.results) == len(self.steps)
        return None if at_end else self.steps[len(self.results)]

    @property
    def caps(self) -> tuple[str, ...]:
        """Return a code for each settled step that guards integrity and does not vouch for it.

        One that a failure before it skipped vouches for as little as one that failed, and so does
        one that found its log broken.
        """
        ended = zip(self.steps, self.results, strict=False)
        return tuple(
            f"step-{word.value}:{step.step_id}"
            for step, word in ((step, _effective_status(step, result)) for step, result in ended)
            if step.guards_integrity and word is not StepStatus.COMPLETED
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """Return a code for each other step that failed and led on, and those of computations."""
        failed = (
            f"step-failed:{result.step_id}"
            for step, result in zip(self.steps, self.results, strict=False)
            if not step.guards_integrity and result.status is StepStatus.FAILED
        )
        return (*failed, *(code for result in self.results for code in _codes_of(result)))

    def advance(self, step_id: str, outcome: StepOutcome) -> "ResolutionStateMachine":
        """Return the programme with the current step settled, and those that are skipped for it.

        Raises ProgrammeError for any other step.
        """
        step = self.current
        if step is None or step.step_id != step_id:
            expected = "the end of the programme" if step is None else f"step {step.step_id}"
            raise ProgrammeError(f"expected {expected}, got step {step_id:.100}")
        if isinstance(outcome, Completed):
            result = _make_result(step, StepStatus.COMPLETED, outcome.result)
            return _skip_steps(replace(self, results=(*self.results, result)))
        target = _find_target(self.steps, len(self.results))
        escalated_to = self.steps[target].step_id if target < len(self.steps) else None
        document: JsonObject = {
            "reason": outcome.reason,
            "error_detail": outcome.error_detail,
            "escalated_to": escalated_to,
        }
        results = (*self.results, _make_result(step, StepStatus.FAILED, document))
        if escalated_to is None:
            return replace(self, results=results, failure=outcome)
        return _skip_steps(replace(self, results=results, resume_at=target))


def _effective_status(step: ProgrammeStep, result: StepResult) -> StepStatus:
    """Return how a step ended; a log that was walked and is not intact is a failure."""
    if not step.walks_a_chain or result.status is not StepStatus.COMPLETED:
        return result.status
    found = cast("JsonObject", result.result["output"])
    return StepStatus.COMPLETED if found.get("intact") is True else StepStatus.FAILED


def _skip_steps(machine: ResolutionStateMachine) -> ResolutionStateMachine:
    """Skip what is before the step that a failure led to, but for what ran in ACTIVE."""
    results = list(machine.results)
    while len(results) < machine.resume_at:
        step = machine.steps[len(results)]
        if step.type in EPISODE_STEPS:
            break
        results.append(_make_result(step, StepStatus.SKIPPED, {}))
    return replace(machine, results=tuple(results))


def _codes_of(result: StepResult) -> Iterator[str]:
    """Yield what a computation found out about a judge by claims of known truth."""
    output = result.result.get("output") if result.type == COMPUTATION else None
    codes = output.get("findings") if isinstance(output, dict) else None
    for code in codes if isinstance(codes, list) else ():
        if isinstance(code, str) and code.startswith(CONTROLS):
            yield code


def _find_target(steps: Sequence[ProgrammeStep], index: int) -> int:
    """Return the index that a failure of step `index` leads to: the end for FAIL or no path.

    -1, which is before every step, for an id that no step has.
    """
    path = steps[index].escalation_path
    if path is None or path == FAIL:
        return len(steps)
    return {step.step_id: number for number, step in enumerate(steps)}.get(path, -1)


def _make_result(step: ProgrammeStep, status: StepStatus, result: JsonObject) -> StepResult:
    return StepResult(step_id=step.step_id, type=step.type, status=status, result=result)


def resolution_document(results: Sequence[StepResult]) -> JsonObject:
    """Return `resolution.json` of a programme that has come to its end."""
    return {
        "status": ProgrammeStatus.COMPLETED.value,
        "steps": [result.as_document() for result in results],
    }
