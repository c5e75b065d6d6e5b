"""A debate that is played step by step: each question comes out, each answer goes in.

The run itself is the one of `theatre.debate.runner`. It waits for nothing but its debaters, so its
coroutine is driven here by hand; no event loop, no clock and no chance are involved.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from theatre.debate.debaters import DebaterAnswer, TurnRequest, answer_of
from theatre.debate.errors import DebateRunError
from theatre.debate.models import EvaluationMode
from theatre.debate.runner import DebateRun, RunPlan
from theatre.debate.times import counting_clock
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodePlay

AGENTS = (("ann", "analyst"), ("bo", "critic"))
MAX_TEXT = 65_536
"""Characters that one answer may say: more is not read as one."""


class Setting(NamedTuple):
    """What a debate of an episode is about, and how it is held."""

    case: JsonObject
    """The setting that debaters receive."""
    mode: EvaluationMode
    rounds: int
    max_retries: int
    agents: tuple[tuple[str, str], ...] = AGENTS
    opening: JsonObject | None = None
    """What the first attempt of the first turn is, instead of an answer of the construct."""


class _Question:
    """Waits for an answer by handing the request to the driver of the run."""

    def __init__(self, request: TurnRequest) -> None:
        self._request = request

    def __await__(self) -> Generator[TurnRequest, DebaterAnswer, DebaterAnswer]:
        return (yield self._request)


class _AskedDebater:
    """A debater whose answers come from outside the run."""

    async def answer(self, request: TurnRequest) -> DebaterAnswer:
        return await _Question(request)


def play_debate(setting: Setting, seed: str) -> EpisodePlay:
    """Play one debate; return the artefact. All agents are the construct.

    Raises DebateRunError at an answer that no turn can be made of.
    """
    run = DebateRun(_plan(setting, seed), counting_clock(), lambda _entry: None)
    debater = _AskedDebater()
    going = run.run({agent: debater for agent, _ in setting.agents})
    opening = setting.opening
    try:
        request: TurnRequest = going.send(None)
        while True:
            output = opening or (yield request.as_document())
            opening = None
            request = going.send(_read(output, request.turn_index))
    except StopIteration as ended:
        result: JsonObject = ended.value
        return result
    finally:
        going.close()


def _read(output: JsonObject, turn_index: int) -> DebaterAnswer:
    answer = answer_of(output, turn_index)
    said = (answer.content, answer.final_answer, answer.reasoning_trace or "")
    if sum(map(len, said)) > MAX_TEXT:
        raise DebateRunError(f"expected at most {MAX_TEXT} characters for turn {turn_index}")
    return answer


def _plan(setting: Setting, seed: str) -> RunPlan:
    run_id = uuid5(NAMESPACE_URL, f"urn:echelon:debate-play:{seed}/{setting.mode}")
    return RunPlan(
        debate_id=str(setting.case["debate_id"]),
        run_id=str(run_id),
        scenario=setting.case,
        participants=setting.agents,
        rounds=setting.rounds,
        mode=setting.mode,
        run_metadata={"generation_mode": "theatre"},
        max_retries=setting.max_retries,
    )
