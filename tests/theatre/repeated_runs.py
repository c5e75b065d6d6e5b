"""Runs in which each episode is asked more than once, for the tests of what comes of that."""

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from tests.theatre.runs import (
    ERROR,
    EXPECTED,
    WRONG,
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.oracle_contract import OracleInvocationRequest

Request = OracleInvocationRequest


def repeated_stage(
    folder: Path, count: int, k: int, changes: Mapping[str, JsonValue] | None = None
) -> Stage:
    """Return a committed theatre of `count` episodes, each asked k times."""
    own: dict[str, JsonValue] = {"/schema_version": "2.2.0", "/execution_policy/repeats": k}
    return pilot_stage(folder, episodes(count), changes=own | dict(changes or {}))


def repeated_run(
    folder: Path, count: int, k: int, answer: Answer, changes: Mapping[str, JsonValue] | None = None
) -> Finished:
    """Return what a run of such a theatre left."""
    return repeated_stage(folder, count, k, changes).run(ScriptedAdapter(answer))


def share(text: str) -> Fraction:
    """Return a number from 0 to 1 that follows from a text."""
    return Fraction(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"), 2**64)


def at_random(request: Request) -> JsonObject:
    """Answer rightly with a chance that is each episode's own, by the id of the call."""
    skill = share(request.episode_id)
    is_right = share(request.invocation_id) < skill
    return {"output_data": {**EXPECTED}} if is_right else {**WRONG}


class Nth:
    """Answers by how often it was asked the same question: `script` from the first time on."""

    def __init__(self, *script: JsonObject) -> None:
        self._script = script
        self._asked: dict[str, int] = {}

    def __call__(self, request: Request) -> JsonObject:
        """Return the next answer, the last one again and again."""
        seen = self._asked.get(request.episode_id, 0)
        self._asked[request.episode_id] = seen + 1
        return self._script[min(seen, len(self._script) - 1)]


class EverySecond:
    """Fails every second call, whatever is asked."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, _: Request) -> JsonObject:
        """Answer rightly, then fail, then answer rightly."""
        self._calls += 1
        return {**ERROR} if self._calls % 2 == 0 else {"output_data": {**EXPECTED}}
