"""Typed, frozen views of a debate artefact. They keep unknown members; they are never hashed.

Source: docs/schemas/debate_output_schema_v2.json, which they accept exactly (a test holds both
to the same documents). What is stored, served and hashed is the bytes that were submitted.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock

# The four actions, their direction, and how they are found in text.


Action: TypeAlias = Literal["BUY", "SELL", "SHORT", "HOLD"]

DIRECTION: Mapping[Action, int] = {"BUY": 1, "SELL": -1, "SHORT": -1, "HOLD": 0}
"""SELL and SHORT point the same way; they are not the same answer."""

_ACTION = re.compile(r"\b(?:BUY|SELL|SHORT|HOLD)\b")


def actions_in(text: str) -> list[Action]:
    """Return every action that `text` names in capitals, in order."""
    return [cast("Action", name) for name in _ACTION.findall(text)]


def parse_action(answer: str | None) -> Action | None:
    """Return the action that a final answer states; None where it names none or several.

    A whole answer such as "buy" counts in any case; inside a sentence only capitals do.
    """
    if answer is None:
        return None
    whole = answer.strip().strip(".").upper()
    found = set(actions_in(whole if whole in DIRECTION else answer))
    return found.pop() if len(found) == 1 else None


# One breach of the schema, of a runtime rule, or of history, and how grave it is.


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Finding:
    """Where an artefact breaks which rule, and what was expected and seen.

    `pointer` is an RFC 6901 JSON Pointer ("" is the whole); `rule` is `R1` … `R18`,
    `schema:<keyword>` or `history`; `code` is stable and meant for machines. Sorts by pointer.
    """

    pointer: str
    rule: str
    code: str
    severity: Severity
    detail: str

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        return asdict(self)


EvaluationMode = Literal["posthoc", "in_loop"]
Rung = Literal["L1", "L2", "L3"]
TurnType = Literal["argument", "rebuttal", "synthesis", "meta"]


def _whole(value: object) -> object:
    """JSON Schema counts 2.0 as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Count: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Positive: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
Some: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Time: TypeAlias = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
        r"(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
    ),
]
Sha256: TypeAlias = Annotated[str, StringConstraints(pattern="^[a-f0-9]{64}$")]
OpenObject: TypeAlias = dict[str, object]


class _Open(BaseModel):
    """An object with members beyond the known ones; `strict`, as JSON has types of its own."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class Recommendation(BaseModel):
    """The one closed object. Sizes are in percent or fractions (rule R13), horizons in days."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    action: Action
    position_size_pct_min: NotNegative
    position_size_pct_max: NotNegative
    horizon_days_min: Count
    horizon_days_max: Count
    conviction: Share
    raw_text: str


class RcaTrace(_Open):
    """Reasoning and answer of a turn, side by side."""

    reasoning_steps: str
    final_answer: str
    structured_steps: list[str] | None = None


class CritAudit(_Open):
    """Quality of reasons, as judged in the loop."""

    gamma_mean: Share | None = None
    theta_mean: Share | None = None
    threshold_pass: bool | None = None
    feedback: str | None = None


class RcaAudit(_Open):
    """Whether the answer follows from the trace, as judged in the loop."""

    blind_verification: bool | None = None
    trace_output_consistent: bool | None = None
    violation_type: str | None = None
    verdict: Literal["pass", "fail"] | None = None
    feedback: str | None = None


class T3Audit(_Open):
    """The causal rung, as judged in the loop."""

    required_rung: Rung | None = None
    pearl_rung_detected: Rung | None = None
    trap_type: str | None = None
    passed: Annotated[bool | None, Field(alias="pass")] = None
    feedback: str | None = None


class PidAudit(_Open):
    """The controller after this attempt."""

    e_t: float | None = None
    u_t: float | None = None
    k_p: float | None = None
    k_i: float | None = None
    k_d: float | None = None
    feedback: str | None = None


class AttemptBehaviour(_Open):
    """`raud_it` of an attempt."""

    audit_strength: str | float | None = None
    behavioral_metrics: OpenObject | None = None
    retry_regime: str | None = None
    notes: str | None = None


class RunBehaviour(_Open):
    """`raud_it` of a run."""

    audit_strength: str | float | None = None
    metrics: OpenObject | None = None
    notes: str | None = None


class Audit(_Open):
    """What evaluators said of an attempt when it was made. `raudit` is read, `raud_it` written."""

    crit: CritAudit | None = None
    rca: RcaAudit | None = None
    t3: T3Audit | None = None
    pid: PidAudit | None = None
    raud_it: AttemptBehaviour | None = None
    raudit: AttemptBehaviour | None = None


class ControlState(_Open):
    """The controller's state that was applied before an attempt."""

    e_t: float | None = None
    u_t: float | None = None
    persona: str | None = None
    strategy_level: str | float | None = None
    retry_count: Count | None = None
    temperature_override: float | None = None


class Attempt(_Open):
    """One try at a turn."""

    attempt_index: Count
    timestamp: Time
    content: Some
    final_answer: str
    reasoning_trace: str | None = None
    recommendation: Recommendation | None = None
    audit: Audit | None = None
    control_state: ControlState | None = None
    attempt_metadata: OpenObject | None = None


class Turn(_Open):
    """One contribution. Where there are attempts, the last one is the accepted one."""

    turn_id: Some
    turn_index: Count
    speaker_id: Some
    content: Some
    round_index: Positive | None = None
    turn_type: TurnType | None = None
    recommendation: Recommendation | None = None
    rca_trace: RcaTrace | None = None
    turn_metadata: OpenObject | None = None
    attempts: list[Attempt] | None = None


class Participant(_Open):
    """One agent."""

    agent_id: Some
    role: str
    model_name: str | None = None
    system_prompt_version: str | None = None


class RunMetadata(_Open):
    """How the run was made."""

    generation_mode: str
    global_model_name: str | None = None
    temperature: NotNegative | None = None
    top_p: Share | None = None
    seed: Integer | None = None
    max_tokens: Positive | None = None
    prompt_bundle_version: str | None = None
    notes: str | None = None


class Metadata(_Open):
    """What the scenario is."""

    created_at: Time
    scenario_id: str | None = None
    task_type: str | None = None
    market_context: str | None = None
    notes: str | None = None


class Intervention(_Open):
    """One instruction that the control loop sent."""

    turn_index: Count
    speaker_id: str
    trigger: str
    instruction_sent: str
    timestamp: Time
    notes: str | None = None


class Integrity(_Open):
    """What the sender says of its own bytes."""

    sha256: Sha256 | None = None
    byte_length: Count | None = None
    canon: str | None = None


class Debate(_Open):
    """One run of one debate."""

    schema_version: Literal["2.0.0"]
    debate_id: Name
    run_id: Name
    evaluation_mode: EvaluationMode = "posthoc"
    run_metadata: RunMetadata
    metadata: Metadata
    participants: Annotated[list[Participant], Field(min_length=1)]
    turns: Annotated[list[Turn], Field(min_length=1)]
    intervention_log: list[Intervention] | None = None
    raud_it: RunBehaviour | None = None
    raudit: RunBehaviour | None = None
    integrity: Integrity | None = None


# Times as debates write them, RFC 3339 with any offset; and the clock of runs without one.


FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
"""When every run by `counting_clock` begins."""


def parse_time(text: str) -> datetime | None:
    """Return the moment that `text` names; None where the calendar has no such time.

    `text` has the shape that the schema demands.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def counting_clock() -> Clock:
    """Return a clock that is a second further each time it is read: it counts events."""
    ticks = count()
    return lambda: FIRST_MOMENT + timedelta(seconds=next(ticks))
