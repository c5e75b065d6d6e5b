"""The scripted debater: answers whose truth, and whose tendency to lose it, is known.

It exists to test estimators and the control loop against what they should find. It is no model
of anybody.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theatre.debate.debaters import DebaterAnswer, TurnRequest
from theatre.debate.errors import DebateRunError
from theatre.debate.models import Action
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import first_mistake

__all__ = ["Disposition", "Scenario", "ScriptedDebater", "read_scenario"]

# Draws that a seed and labels fix, the same on every platform and in every order.


def draw(seed: int, *labels: object) -> float:
    """Return a number in [0, 1) that `seed` and `labels` fix; others are independent of it."""
    text = "\x1f".join([str(seed), *map(str, labels)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:6]) / 2**48


# What a scripted debate is about: arguments for either side, and which side is right.


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Fact(_Closed):
    """One argument, in clauses that fit the sentences of `script`."""

    cause: str
    effect: str
    figure: str
    source: str
    why: str
    falsifier: str


class Scenario(_Closed):
    """A question with a known right action, the wrong one that is hinted at, and facts for each."""

    debate_id: str
    subject: str
    context: str
    truth: Action
    hint: Action
    facts: dict[Action, Annotated[list[Fact], Field(min_length=2)]]

    def public(self) -> JsonObject:
        """Return what debaters see: arguments for either side, without truth and hint."""
        facts: JsonObject = {
            action: [one.model_dump() for one in self.facts[action]]
            for action in sorted(self.facts)
        }
        return {
            "debate_id": self.debate_id,
            "subject": self.subject,
            "context": self.context,
            "facts": facts,
        }


def read_scenario(document: JsonObject) -> Scenario:
    """Return the scenario in `document`. Raises DebateRunError for another shape."""
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        raise DebateRunError(f"expected a scenario, got at {first_mistake(error)}") from error
    sides = {scenario.truth, scenario.hint}
    if len(sides) != 2 or sides - set(scenario.facts):  # noqa: PLR2004 - the two sides
        raise DebateRunError("expected facts for truth and for hint, which differ")
    return scenario


# Writes a structured turn from a scenario's facts. How complete it is comes from the caller.


_VERBS: dict[Action, str] = {"BUY": "bought", "SELL": "sold", "SHORT": "shorted", "HOLD": "held"}
_SIZES = ((1, 2), (2, 4), (3, 5), (4, 7))
_MONTHS = ((2, 4), (3, 6), (6, 9))

Present = Callable[[str], bool]
"""Tells whether the part of that name is written this time."""


def recommendation(action: Action, *, level: float) -> JsonObject:
    """Return a recommendation; `level` (0 … 1) chooses size, horizon and conviction."""
    low, high = _SIZES[int(level * len(_SIZES)) % len(_SIZES)]
    first, last = _MONTHS[int(level * 12) % len(_MONTHS)]
    return {
        "action": action,
        "position_size_pct_min": low,
        "position_size_pct_max": high,
        "horizon_days_min": first * 30,
        "horizon_days_max": last * 30,
        "conviction": round(0.5 + 0.35 * level, 2),
        "raw_text": f"{action} | SIZE {low}-{high}% | HORIZON {first}-{last} months",
    }


def content(scenario: Scenario, action: Action, other: Action, line: str, present: Present) -> str:
    """Return a turn for `action` against `other`; `line` is its decision."""
    own, against = scenario.facts[action], scenario.facts[other][0]
    parts = [
        _section("CLAIM", _claim(scenario, action, own[0])),
        _section("DECISION", line),
        *(_reason(number, fact, present) for number, fact in enumerate(own, start=1)),
    ]
    if present("rebuttal"):
        parts += [
            _section("COUNTERARGUMENT", f"{against.figure} This {against.cause} could matter."),
            _section("REBUTTAL", f"The {against.cause} is real, but {own[0].why} outweighs it."),
        ]
    parts.append(_section("ASSUMPTIONS", "Terms of trade stay as they were this year."))
    parts.append(_section("EPISTEMIC CLARITY", "The figures are read; the outlook is inferred."))
    if present("mind"):
        parts.append(_section("WHAT WOULD CHANGE MY MIND", own[1].falsifier))
    parts.append(_section("FINAL CONSISTENCY CHECK", f"Claim and decision agree: {action}."))
    return "\n\n".join(parts)


def trace(scenario: Scenario, action: Action) -> str:
    """Return the reasoning that leads to `action`."""
    first, second = scenario.facts[action][:2]
    return (
        f"1. {first.figure} 2. {first.cause} leads to {first.effect}. 3. {second.figure} "
        f"4. So the answer is {action}."
    )


def _claim(scenario: Scenario, action: Action, fact: Fact) -> str:
    return (
        f"{scenario.subject} should be {_VERBS[action]}, because {fact.cause} "
        f"leads to {fact.effect}."
    )


def _reason(number: int, fact: Fact, present: Present) -> str:
    tag = f"[DATA:{fact.source}]" if present(f"data {number}") else "[ASSUMPTION]"
    lines = [f"Evidence: {tag} {fact.figure}"]
    if present(f"mechanism {number}"):
        lines.append(f"Mechanism: {fact.cause} leads to {fact.effect}, and {fact.why} adds to it.")
    if present(f"condition {number}"):
        lines.append(
            f"If {fact.cause} goes on then {fact.effect} follows because {fact.why} holds."
        )
    if present(f"falsifier {number}"):
        lines.append(f"Falsifier: {fact.falsifier}")
    return _section(f"REASON {number}", "\n".join(lines))


def _section(name: str, text: str) -> str:
    return f"### {name}\n{text}"


# A debater whose every tendency is a number that estimators can be checked against.


Probability = Annotated[float, Field(ge=0, le=1)]
_EFFORT = {"direct": 0.0, "cot": 0.5, "code": 0.8}


class Disposition(BaseModel):
    """The latent tendencies, each a probability.

    A first answer is right with `competence`. On a retry a right answer is given up with
    `susceptibility` times `hint_pressure` (the paranoia rate), a wrong one put right with
    `responsiveness` (the realignment rate). Each part of a turn is written with `care`, and with
    more of it the further the strategy is escalated. With `slip` the final answer is not the
    one that the trace derives.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    competence: Probability = 0.6
    susceptibility: Probability = 0.5
    hint_pressure: Probability = 0.4
    responsiveness: Probability = 0.5
    care: Probability = 0.8
    slip: Probability = 0.0

    @property
    def paranoia_rate(self) -> float:
        """Return the probability that a retry turns a right answer wrong."""
        return self.susceptibility * self.hint_pressure

    @property
    def realignment_rate(self) -> float:
        """Return the probability that a retry turns a wrong answer right."""
        return self.responsiveness


class ScriptedDebater:
    """Answers from a scenario's facts; seed, place and attempt fix every answer.

    Draws of truth are independent of draws of care, so what an audit of form sends back says
    nothing of who is right, and rates among retries are the disposition's own.
    """

    def __init__(self, scenario: Scenario, disposition: Disposition, seed: int) -> None:
        self._scenario = scenario
        self._disposition = disposition
        self._seed = seed
        self._is_right: dict[tuple[int, int], bool] = {}

    async def answer(self, request: TurnRequest) -> DebaterAnswer:
        """Return the attempt that `request` asks for; attempts come in order."""
        right, wrong = self._scenario.truth, self._scenario.hint
        action, other = (right, wrong) if self._draw_truth(request) else (wrong, right)
        advice = recommendation(action, level=self._draw(request, "level"))
        slips = self._draw(request, "slip") < self._disposition.slip
        return DebaterAnswer(
            content=content(
                self._scenario,
                action,
                other,
                str(advice["raw_text"]),
                lambda part: self._draw(request, "part", part) < self._care(request),
            ),
            final_answer=other if slips else action,
            reasoning_trace=trace(self._scenario, action),
            recommendation=advice,
        )

    def _draw_truth(self, request: TurnRequest) -> bool:
        tendency = self._disposition
        place = request.turn_index, request.attempt_index
        before = self._is_right.get((request.turn_index, request.attempt_index - 1))
        if before is None:
            chance = tendency.competence
        elif before:
            chance = 1 - tendency.paranoia_rate
        else:
            chance = tendency.realignment_rate
        self._is_right[place] = self._draw(request, "truth") < chance
        return self._is_right[place]

    def _care(self, request: TurnRequest) -> float:
        care = self._disposition.care
        return care + (1 - care) * _EFFORT.get(request.strategy_level, 0.0)

    def _draw(self, request: TurnRequest, *labels: str) -> float:
        place = (request.debate_id, request.turn_index, request.attempt_index)
        return draw(self._seed, *place, *labels)


def labels_of(scenario: Scenario) -> dict[str, Action]:
    """Return the labels of every run of `scenario`, for `raudit`."""
    return {"*": scenario.truth}
