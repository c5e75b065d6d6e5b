"""Recomputes the controller's stored values from the errors that are stored beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from theatre.debate.models import Debate, PidAudit
from theatre.debate.pid import Gains, PidMemory, pid_step
from theatre.engine.schema_registry import json_pointer

TOLERANCE = 1e-9
DEFAULT_INTEGRAL_LIMIT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """One attempt's controller values, where all that the replay needs are there."""

    place: int
    number: int
    turn_index: int
    error: float
    output: float
    gains: Gains
    integral_limit: float

    @property
    def pointer(self) -> str:
        """Return where the output is stored."""
        return json_pointer("turns", self.place, "attempts", self.number, "audit", "pid", "u_t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A stored output that is not what its errors come to."""

    pointer: str
    turn_index: int
    expected: float
    stored: float


def stored_steps(debate: Debate) -> Iterator[StoredStep]:
    """Yield the replayable steps in the order of the run; others are passed over."""
    for place, turn in enumerate(debate.turns):
        for number, attempt in enumerate(turn.attempts or ()):
            pid = attempt.audit.pid if attempt.audit else None
            if pid is None:
                continue
            step = _step(pid, place, number, turn.turn_index)
            if step is not None:
                yield step


def mismatches(debate: Debate) -> Iterator[Mismatch]:
    """Yield each stored u_t that differs from its replay by more than TOLERANCE."""
    memory = PidMemory()
    for step in stored_steps(debate):
        expected, memory = pid_step(
            memory, step.error, step.gains, integral_limit=step.integral_limit
        )
        # A NaN is no match either.
        if not abs(expected - step.output) <= TOLERANCE:
            yield Mismatch(
                pointer=step.pointer,
                turn_index=step.turn_index,
                expected=expected,
                stored=step.output,
            )


def _step(pid: PidAudit, place: int, number: int, turn_index: int) -> StoredStep | None:
    numbers = (pid.e_t, pid.u_t, pid.k_p, pid.k_i, pid.k_d)
    error, output, k_p, k_i, k_d = numbers
    if error is None or output is None or k_p is None or k_i is None or k_d is None:
        return None
    limit = (pid.model_extra or {}).get("integral_limit")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    return StoredStep(
        place=place,
        number=number,
        turn_index=turn_index,
        error=error,
        output=output,
        gains=Gains(k_p=k_p, k_i=k_i, k_d=k_d),
        integral_limit=float(limit) if is_number and limit is not None else DEFAULT_INTEGRAL_LIMIT,
    )
