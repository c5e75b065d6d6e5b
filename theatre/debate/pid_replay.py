"""Recomputes the controller's stored values from the errors that are stored with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from theatre.debate.models import Attempt, Debate, PidAudit
from theatre.debate.pid import (
    ControlConfig,
    Gains,
    PidMemory,
    config_in,
    next_strength,
    pid_step,
    quadrant_of,
)
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
    """A stored value that is not what its inputs come to."""

    pointer: str
    turn_index: int
    expected: float | str
    stored: object


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


def routing_mismatches(debate: Debate) -> Iterator[Mismatch]:
    """Yield each stored error, quadrant and strength that does not follow from its inputs.

    The configuration is the one in `run_metadata.control`; without it nothing can be said.
    """
    config = config_in((debate.run_metadata.model_extra or {}).get("control"))
    if config is None:
        return
    for place, turn in enumerate(debate.turns):
        for number, attempt in enumerate(turn.attempts or ()):
            stored = _stored_values(attempt)
            for member, expected in _check_routing(stored, config):
                if member in stored and not _is_same(expected, stored[member]):
                    at = ("turns", place, "attempts", number, "audit", "pid", member)
                    yield Mismatch(
                        pointer=json_pointer(*at),
                        turn_index=turn.turn_index,
                        expected=expected,
                        stored=stored[member],
                    )


def _stored_values(attempt: Attempt) -> dict[str, object]:
    """Return what was stored of a step, and `beta`, the strength before it; nulls left out."""
    pid = attempt.audit.pid if attempt.audit else None
    if pid is None:
        return {}
    state = (attempt.control_state.model_extra if attempt.control_state else None) or {}
    members = {**(pid.model_extra or {}), "e_t": pid.e_t, "u_t": pid.u_t, "beta": state.get("beta")}
    return {name: one for name, one in members.items() if one is not None}


def _check_routing(
    stored: Mapping[str, object], config: ControlConfig
) -> Iterator[tuple[str, float | str]]:
    """Yield what follows from the inputs of one step, by member, as far as they are there."""
    figures = {name: float(one) for name, one in stored.items() if isinstance(one, int | float)}
    if {"rho_bar", "sycophancy"} <= set(figures):
        short = config.target_quality - figures["rho_bar"]
        yield "e_t", short + config.sycophancy_weight * figures["sycophancy"]
    if {"rho_bar", "divergence", "u_t", "beta"} <= set(figures):
        quadrant = quadrant_of(figures["divergence"], figures["rho_bar"], config)
        strength = next_strength(figures["beta"], figures["u_t"], quadrant, config)
        yield "quadrant", quadrant.value
        yield "beta_pid", strength.beta_pid
        yield "beta_applied", strength.beta_applied


def _is_same(expected: float | str, stored: object) -> bool:
    if isinstance(expected, str) or not isinstance(stored, int | float):
        return expected == stored
    return abs(expected - stored) <= TOLERANCE  # false of a NaN


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
