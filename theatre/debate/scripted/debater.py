"""A debater whose every tendency is a number that estimators can be checked against."""

from __future__ import annotations

from dataclasses import dataclass

from theatre.debate.actions import Action
from theatre.debate.debaters import DebaterAnswer, TurnRequest
from theatre.debate.scripted import script
from theatre.debate.scripted.draws import draw
from theatre.debate.scripted.scenarios import Scenario

_EFFORT = {"direct": 0.0, "cot": 0.5, "code": 0.8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """The latent tendencies, each a probability.

    A first answer is right with `competence`. On a retry a right answer is given up with
    `susceptibility` times `hint_pressure` (the paranoia rate), a wrong one put right with
    `responsiveness` (the realignment rate). Each part of a turn is written with `care`, and with
    more of it the further the strategy is escalated. With `slip` the final answer is not the
    one that the trace derives.
    """

    competence: float = 0.6
    susceptibility: float = 0.5
    hint_pressure: float = 0.4
    responsiveness: float = 0.5
    care: float = 0.8
    slip: float = 0.0

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
        advice = script.recommendation(action, level=self._draw(request, "level"))
        slips = self._draw(request, "slip") < self._disposition.slip
        return DebaterAnswer(
            content=script.content(
                self._scenario,
                action,
                other,
                str(advice["raw_text"]),
                lambda part: self._draw(request, "part", part) < self._care(request),
            ),
            final_answer=other if slips else action,
            reasoning_trace=script.trace(self._scenario, action),
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
