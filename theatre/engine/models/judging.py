"""What a scorer asks a judge, what came of it, and the same once more from the record.

A judge is no pure function, so its exchanges are made and recorded first; the score is a pure
function of them (docs/contract/scoring.md §2).
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias, TypeVar

from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.errors import UnaskedError

Judgement: TypeAlias = Generator[JsonObject, JsonObject, float | None]
"""Yields requests to a judge, is sent what came of each, returns the score as scorers do."""

REQUEST, ANSWER = "request", "answer"
"""The members of a recorded exchange."""


class Judge(Protocol):
    """A model outside this project: it knows how to reach the model, and nothing of scores."""

    async def ask(self, request: JsonObject) -> JsonObject:
        """Return what came of `request`, as the evidence keeps it, a failure included.

        Raises TheatreError where no request can succeed before a setting is changed: the
        run stops, and what was recorded stays.
        """


ResultT = TypeVar("ResultT")


async def ask_judge(
    judgement: Generator[JsonObject, JsonObject, ResultT], judge: Judge
) -> tuple[ResultT, list[JsonObject]]:
    """Return what `judgement` comes to with `judge`, and the exchanges for `replay_judgement`.

    Raises what the judge raises.
    """
    exchanges: list[JsonObject] = []
    try:
        sent = next(judgement)
        while True:
            answer = await judge.ask(sent)
            # Copies: a judgement may change what it asked and what it is sent.
            exchanges.append(copy.deepcopy({REQUEST: sent, ANSWER: answer}))
            sent = judgement.send(answer)
    except StopIteration as ended:
        result: ResultT = ended.value
        return result, exchanges


def replay_judgement(
    judgement: Generator[JsonObject, JsonObject, ResultT], exchanges: Sequence[JsonObject]
) -> ResultT:
    """Return what `judgement` comes to with recorded exchanges.

    Raises UnaskedError, saying where, unless they are those that it asks for, and all of them.
    """
    number = 0
    try:
        sent = next(judgement)
        while True:
            answer = _answer_to(sent, exchanges, number)
            number += 1
            sent = judgement.send(answer)
    except StopIteration as ended:
        if len(exchanges) != number:
            raise UnaskedError(f"expected {number} exchanges, got {len(exchanges)}") from None
        result: ResultT = ended.value
        return result


def _answer_to(sent: JsonObject, exchanges: Sequence[JsonObject], number: int) -> JsonObject:
    exchange = exchanges[number] if number < len(exchanges) else {}
    answer = exchange.get(ANSWER)
    if not isinstance(answer, dict) or exchange.keys() != {REQUEST, ANSWER}:
        raise UnaskedError(f"expected exchange {number} as request and answer, got another shape")
    if canonical_bytes(exchange[REQUEST]) != canonical_bytes(sent):
        raise UnaskedError(f"expected exchange {number} with the request that is asked for")
    # A copy: a judgement may change what it is sent, and the record is read again.
    return copy.deepcopy(answer)
