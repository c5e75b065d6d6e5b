"""What the control loop makes of one attempt: evaluators, error, controller, instruction."""

import math
from dataclasses import dataclass, field

from theatre.debate.blind import BlindTurn
from theatre.debate.evaluators import crit, rca
from theatre.debate.evaluators.crit import quality_of
from theatre.debate.evaluators.results import TurnFinding
from theatre.debate.pid import (
    ControlConfig,
    PidMemory,
    Quadrant,
    divergence_of,
    next_strength,
    persona_of,
    pid_step,
    quadrant_of,
)
from theatre.debate.text import evidence_ids
from theatre.engine.canonical_json import JsonObject

STRATEGIES = ("direct", "cot", "code")
"""How an attempt must be reasoned, by the number of retries before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """Divergence and common evidence of the agents after a step."""

    divergence: float
    overlap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMemory:
    """What the loop knows after a step: controller, strength, and each agent's last figures."""

    pid: PidMemory = field(default_factory=PidMemory)
    beta: float
    last: JsonObject | None = None
    mood: Mood | None = None
    qualities: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, frozenset[str]] = field(default_factory=dict)

    def state(self, attempt_index: int) -> JsonObject:
        """Return the control state under which attempt `attempt_index` is made."""
        last = self.last or {}
        return {
            "e_t": last.get("e_t"),
            "u_t": last.get("u_t"),
            "beta": self.beta,
            "persona": persona_of(self.beta),
            "strategy_level": strategy_of(attempt_index),
            "retry_count": attempt_index,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of an attempt's audit. `triggers` is empty where it passed."""

    audit: JsonObject
    triggers: tuple[str, ...]
    instruction: str
    memory: ControlMemory


def strategy_of(attempt_index: int) -> str:
    """Return the strategy of an attempt: escalated with each retry, up to the last."""
    return STRATEGIES[min(attempt_index, len(STRATEGIES) - 1)]


def judge(
    turn: BlindTurn, context: rca.Context, memory: ControlMemory, config: ControlConfig
) -> Judgement:
    """Audit one attempt, seen blindly as the turn that it would make.

    An unstructured turn has no quality: CRIT says nothing, no controller step is made, and
    RCA alone decides.
    """
    quality = quality_of(turn)
    violations = list(rca.violations(turn, context))
    inconsistent = [one for one in violations if one.code in rca.INCONSISTENT]
    flaws = list(crit.findings_of(turn, quality))
    triggers = (
        *(["crit"] if quality is not None and not quality.threshold_pass else []),
        *(["rca"] if inconsistent else []),
    )
    audit: JsonObject = {
        "crit": None if quality is None else {**quality.as_document(), "feedback": _said(flaws)},
        "rca": {
            "blind_verification": True,
            "trace_output_consistent": not inconsistent,
            "violation_type": violations[0].code if violations else None,
            "verdict": "fail" if inconsistent else "pass",
            "feedback": _said(violations),
        },
    }
    after = memory
    if quality is not None:
        step, after = _step(turn, quality.rho, memory, config)
        audit["pid"] = step
        audit["raud_it"] = {"audit_strength": step["beta_applied"]}
    return Judgement(
        audit=audit,
        triggers=triggers,
        instruction=_instruction([*inconsistent, *flaws]),
        memory=after,
    )


def _step(
    turn: BlindTurn, rho: float, memory: ControlMemory, config: ControlConfig
) -> tuple[JsonObject, ControlMemory]:
    qualities = {**memory.qualities, turn.speaker_id: rho}
    evidence = {**memory.evidence, turn.speaker_id: evidence_ids(turn.content)}
    mood = Mood(
        divergence=divergence_of(list(qualities.values())),
        overlap=_overlap(list(evidence.values())),
    )
    mean = math.fsum(qualities.values()) / len(qualities)
    sycophancy = _is_sycophantic(memory.mood, mood, config)
    error = (config.target_quality - mean) + config.sycophancy_weight * sycophancy
    output, pid = pid_step(memory.pid, error, config.gains, integral_limit=config.integral_limit)
    quadrant: Quadrant = quadrant_of(mood.divergence, mean, config)
    strength = next_strength(memory.beta, output, quadrant, config)
    step: JsonObject = {
        "variant": "raudit",
        "e_t": error,
        "u_t": output,
        "k_p": config.gains.k_p,
        "k_i": config.gains.k_i,
        "k_d": config.gains.k_d,
        "integral_limit": config.integral_limit,
        "rho_bar": mean,
        "divergence": mood.divergence,
        "overlap": mood.overlap,
        "sycophancy": sycophancy,
        "quadrant": quadrant.value,
        "beta_pid": strength.beta_pid,
        "beta_applied": strength.beta_applied,
    }
    after = ControlMemory(
        pid=pid,
        beta=strength.beta_applied,
        last=step,
        mood=mood,
        qualities=qualities,
        evidence=evidence,
    )
    return step, after


def _is_sycophantic(before: Mood | None, now: Mood, config: ControlConfig) -> int:
    """Return 1 where the agents suddenly agree while their evidence has less in common."""
    if before is None:
        return 0
    agree = now.divergence - before.divergence < -config.divergence_bound
    return int(agree and now.overlap < before.overlap)


def _overlap(cited: list[frozenset[str]]) -> float:
    """Return the mean Jaccard index over pairs of agents; 0 for one agent alone."""
    pairs = [(one, other) for place, one in enumerate(cited) for other in cited[place + 1 :]]
    shares = [len(one & other) / len(one | other) if one | other else 0.0 for one, other in pairs]
    return math.fsum(shares) / len(shares) if shares else 0.0


def _said(findings: list[TurnFinding]) -> str | None:
    return "; ".join(f"{one.code}: {one.detail}" for one in findings) or None


def _instruction(findings: list[TurnFinding]) -> str:
    said = [f"{one.code.lower().replace('_', ' ')} ({one.detail})" for one in findings]
    return "Answer again. " + ("; ".join(said) or "the reasons are not put fully enough") + "."
