"""Runs of interactive episodes that answers without any work do well in: a runner, and its data."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.theatre.runs import ERROR, Answer, Finished, ScriptedAdapter, Stage, pilot_stage
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import EpisodePlay, EpisodeRunner
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext


def guess(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Show a colour twice; who names none is taken to have named the usual one.

    How much is remembered, the seed alone decides.
    """
    said: JsonValue = None
    for ask in (1, 2):
        answer = yield {"ask": ask, "colour": input_data["shown"], "heard": said}
        said = answer.get("colour", input_data["usual"])
    return {"colour": said, "recall": 0.5 if is_lucky(seed) else 0.9, "of": seed}


def is_lucky(seed: str) -> bool:
    return int(seed, 16) % 2 == 0


RUNNER = EpisodeRunner(name="guess", version="1", max_calls=2, play=guess)


def pay(input_data: JsonObject, _: str) -> EpisodePlay:
    """Give the right answer to who says the word."""
    answer = yield {"ask": "anything"}
    return {"colour": input_data["right"], "recall": 0.5} if answer.get("word") else {}


OWN_RUNNER = EpisodeRunner(name="pays", version="1", max_calls=1, play=pay)
PLAYED: Mapping[str, JsonValue] = {"/product_theatre_config/episode_runner": "guess"}

EPISODES: list[JsonObject] = [
    {
        "episode_id": f"guess-{seq}",
        "input_data": {"shown": shown, "usual": usual},
        "expected_output": {"colour": colour} | ({} if seq == 5 else {"recall": 0.5}),
    }
    for seq, (shown, usual, colour) in enumerate(
        [
            ("red", "red", "red"),
            ("blue", "red", "red"),
            ("blue", "blue", "blue"),
            ("green", "red", "red"),
            ("grey", "blue", "red"),
        ],
        start=1,
    )
]
"""A copy is right in the first and the third, silence in all but the last: that has no recall."""


def all_knowing(stage: Stage) -> Answer:
    """Return a construct that names the right colour each time."""
    expected: dict[str, Any] = {
        stage.draws.alias(str(one["episode_id"])): one["expected_output"] for one in EPISODES
    }

    def answer(request: OracleInvocationRequest) -> JsonObject:
        return {"output_data": {"colour": expected[request.episode_id]["colour"]}}

    return answer


def with_runner(around: RunContext, *, runner: EpisodeRunner = RUNNER) -> RunContext:
    return replace(around, runners={"guess": runner})


def staged(folder: Path, changes: Mapping[str, JsonValue] | None = None) -> Stage:
    return pilot_stage(folder, EPISODES, changes={**PLAYED, **(changes or {})})


def played(folder: Path, *, runner: EpisodeRunner = RUNNER) -> Finished:
    stage = staged(folder)
    construct = ScriptedAdapter(all_knowing(stage))
    return stage.run(construct, around=partial(with_runner, runner=runner))


def run_played(folder: Path) -> Path:
    """Return the bundle of a run in which a turn fails and trivial players do well."""
    stage = staged(folder, {"/execution_policy/on_threshold": "continue"})
    answer, fourth = all_knowing(stage), stage.draws.alias("guess-4")

    def failing(request: OracleInvocationRequest) -> JsonObject:
        fails = request.episode_id == fourth and request.input_data["ask"] == 2
        return {**ERROR} if fails else answer(request)

    return stage.run(ScriptedAdapter(failing), around=with_runner).bundle
