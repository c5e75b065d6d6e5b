"""The controller: one step of a PID loop, and where its output routes the audit's strength.

Formulas as implemented (docs/debate.md, "The controller"); the papers' own constants are defaults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from theatre.engine.canonical_json import JsonObject


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
        return {
            "k_p": self.gains.k_p,
            "k_i": self.gains.k_i,
            "k_d": self.gains.k_d,
            "target_quality": self.target_quality,
            "sycophancy_weight": self.sycophancy_weight,
            "decay": self.decay,
            "exploration_step": self.exploration_step,
            "divergence_bound": self.divergence_bound,
            "integral_limit": self.integral_limit,
            "first_beta": self.first_beta,
        }


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


def stability(config: ControlConfig, steps: int) -> JsonObject:
    """Return the two bounds for `steps` steps: whether the loop is stable, and cannot oscillate."""
    goal = config.target_quality
    greatest_error = max(goal + config.sycophancy_weight, 1 - goal)
    gains = config.gains
    reach = greatest_error * (gains.k_p + steps * gains.k_i + 2 * gains.k_d)
    return {
        "steps": steps,
        "reach": reach,
        "stable": reach < 1 / config.decay,
        "cannot_oscillate": reach < 1 - config.decay,
    }
