"""Debates before a judge by rule: what it is asked, and what its answers come to."""

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from theatre.debate.blind import blind
from theatre.debate.evaluators import Evaluation
from theatre.debate.judge.evaluator import judgement
from theatre.debate.judge.questions import RUBRICS
from theatre.debate.models import Debate
from theatre.engine.canonical_json import JsonObject

Rule = Callable[[dict[str, Any]], Any]
"""From what a judge is shown to its verdicts, or to the whole of what is recorded as answer."""

ResultT = TypeVar("ResultT")
CONFIG = RUBRICS.committed("m", temperature=None)


def verdicts(*faults: str, **said: str) -> dict[str, Any]:
    sound = {"validity": "sound", "credibility": "good", "answer_follows": "yes", "rung": "L2"}
    return {**sound, **said, "faults": [*faults]}


def by_tags(data: dict[str, Any]) -> dict[str, Any]:
    """Judge by the one thing that a rule can see: whether anything is cited."""
    if "[DATA" in data["turn"]["text"]:
        return verdicts()
    return verdicts("UNSUPPORTED_CLAIMS", validity="unsound", credibility="poor", rung="none")


def judged(debate: Debate, rule: Rule) -> tuple[Evaluation, list[JsonObject]]:
    """Return the result by a judge that is asked for real, and the exchanges."""
    return answered(judgement(blind(debate), CONFIG), {"m": rule})


def answered(
    asking: Generator[JsonObject, JsonObject, ResultT], rules: Mapping[str, Rule]
) -> tuple[ResultT, list[JsonObject]]:
    """Return what comes of it where each model answers by its rule, and the exchanges."""
    exchanges = list[JsonObject]()
    try:
        request = next(asking)
        while True:
            answer = _answer(request, rules)
            exchanges.append({"request": request, "answer": answer})
            request = asking.send(answer)
    except StopIteration as ended:
        return ended.value, exchanges


def _answer(request: JsonObject, rules: Mapping[str, Rule]) -> JsonObject:
    messages: Any = request["messages"]
    model = str(request["model"])
    said = rules[model](json.loads(messages[0]["content"]))
    if isinstance(said, dict) and "body" in said:
        return said
    content = [{"type": "text", "text": json.dumps(said)}]
    body = {"model": model, "stop_reason": "end_turn", "content": content}
    return {"reason": None, "body": json.dumps(body)}
