"""The controller: one step of a PID loop, and where its output routes the audit's strength.

Formulas as implemented (docs/debate.md, "The controller"); the papers' own constants are defaults.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from theatre.debate.models import Attempt, Debate, PidAudit
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import json_pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Proportional, integral and derivative gain."""

    k_p: float = 0.15
    k_i: float = 0.01
    k_d: float = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlConfig:
    """Everything that a step depends on in addition to its inputs. Shares are within 0 … 1."""

    gains: Gains = field(default_factory=Gains)
    target_quality: float = 0.8
    """rho*: the quality that a turn is to reach."""
    sycophancy_weight: float = 1.0
    """mu: what agreement without common evidence adds to the error."""
    decay: float = 0.9
    """gamma_beta."""
    exploration_step: float = 0.1
    """delta_beta."""
    divergence_bound: float = 0.05
    """delta_JS, and the fall of divergence (delta_s) that counts as sudden agreement."""
    integral_limit: float = 10.0
    """The integral is clamped to ± this (anti-windup)."""
    first_beta: float = 0.5

    def as_document(self) -> JsonObject:
        """Return the form that artefacts and results carry."""
        figures = asdict(self)
        return {**figures.pop("gains"), **figures}


def config_in(document: object) -> ControlConfig | None:
    """Return the configuration that `as_document` gave; None where it is not whole."""
    members = document.items() if isinstance(document, dict) else ()
    known = set(ControlConfig().as_document())
    figures = {
        name: float(one) for name, one in members if name in known and type(one) in {int, float}
    }
    if set(figures) != known:
        return None
    gains = Gains(**{name: figures.pop(name) for name in ("k_p", "k_i", "k_d")})
    return ControlConfig(gains=gains, **figures)


@dataclass(frozen=True, slots=True)
class PidMemory:
    """What a step needs of the steps before it: clamped sum of errors, and the last error."""

    integral: float = 0.0
    last_error: float | None = None


def pid_step(
    memory: PidMemory, error: float, gains: Gains, *, integral_limit: float
) -> tuple[float, PidMemory]:
    """Return u = Kp e + Ki sum(e) + Kd (e - last e), and what the next step needs.

    The first step has no derivative: there is no error before it.
    """
    integral = min(max(memory.integral + error, -integral_limit), integral_limit)
    change = 0.0 if memory.last_error is None else error - memory.last_error
    output = gains.k_p * error + gains.k_i * integral + gains.k_d * change
    return output, PidMemory(integral, error)


class Quadrant(StrEnum):
    """Divergence of the agents against quality of their reasons."""

    STUCK = "STUCK"
    CHAOTIC = "CHAOTIC"
    CONVERGED = "CONVERGED"
    HEALTHY = "HEALTHY"


def quadrant_of(divergence: float, quality: float, config: ControlConfig) -> Quadrant:
    """Return the quadrant of a step; both bounds belong to the upper side."""
    diverse, good = divergence >= config.divergence_bound, quality >= config.target_quality
    if good:
        return Quadrant.HEALTHY if diverse else Quadrant.CONVERGED
    return Quadrant.CHAOTIC if diverse else Quadrant.STUCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """The strength beta of the next audit: as the controller gives it, and as it is applied."""

    beta_pid: float
    beta_applied: float


def next_strength(
    beta: float, output: float, quadrant: Quadrant, config: ControlConfig
) -> Strength:
    """Route the controller's output: explore where stuck, refine where chaotic, else relax."""
    beta_pid = min(max(config.decay * beta + output, 0.0), 1.0)
    if quadrant is Quadrant.STUCK:
        applied = min(beta + config.exploration_step, 1.0)
    elif quadrant is Quadrant.CHAOTIC:
        applied = beta_pid
    else:
        applied = beta * config.decay
    return Strength(beta_pid=beta_pid, beta_applied=applied)


def persona_of(beta: float) -> str:
    """Return how an audit of strength `beta` speaks."""
    if beta >= 0.67:  # noqa: PLR2004 - thirds
        return "adversarial"
    return "balanced" if beta >= 0.33 else "collaborative"  # noqa: PLR2004 - see above


def binary_entropy(share: float) -> float:
    """Return H(share) in bits, 0 at both ends."""
    if share in (0.0, 1.0):
        return 0.0
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def divergence_of(qualities: list[float]) -> float:
    """Return the Jensen-Shannon divergence of the agents' qualities, in bits, never below 0."""
    mean = math.fsum(qualities) / len(qualities)
    mean_entropy = math.fsum(binary_entropy(one) for one in qualities) / len(qualities)
    return max(binary_entropy(mean) - mean_entropy, 0.0)


# Recomputes the controller's stored values from the errors that are stored with them.


TOLERANCE = 1e-9


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
    if not isinstance(limit, int | float) or isinstance(limit, bool):
        limit = ControlConfig().integral_limit
    return StoredStep(
        place=place,
        number=number,
        turn_index=turn_index,
        error=error,
        output=output,
        gains=Gains(k_p=k_p, k_i=k_i, k_d=k_d),
        integral_limit=float(limit),
    )
