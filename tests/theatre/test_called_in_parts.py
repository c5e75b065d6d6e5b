"""A run whose parts are called one by one comes to what it comes to in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.theatre.runs import (
    ERROR,
    REFUSED,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonValue
from theatre.engine.errors import InvalidTransitionError, RunStoppedError
from theatre.engine.replay import ReplayEngine, RunContext, RunSettings
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.retry import make_retrying_invoker
from theatre.scorers import load_scorers

TOTAL = 24
ANSWERS = {2: WRONG, 5: REFUSED, 9: ERROR, 17: WRONG, 20: ERROR}
FOUR = {"/execution_policy/max_concurrency": 4, "/execution_policy/deterministic_sample": 3}
PARTS = (range(9, 17), range(1, 9), range(17, 25))
Scene = Callable[[ReplayEngine], Awaitable[object]]


def staged(folder: Path, **changes: JsonValue) -> Stage:
    named = {f"/execution_policy/{name}": value for name, value in changes.items()}
    return pilot_stage(folder, episodes(TOTAL, ANSWERS), changes={**FOUR, **named})


def play(
    stage: Stage, scene: Scene, adapter: ScriptedAdapter, *, is_stopping: bool = False
) -> None:
    """Play a scene with an engine over the theatre as it is now."""

    async def perform() -> None:
        with FileTheatreStore(stage.folder.parents[1]).hold(stage.theatre_id) as held:
            around = RunContext(
                coin=held.coin,
                adapters={"pilot": adapter},
                invoke=make_retrying_invoker(asyncio.sleep),
                datasets=DatasetRoots([stage.data]),
                scorers=load_scorers(),
                registry=SchemaRegistry(),
                clock=stage.clock,
                sleep=asyncio.sleep,
                is_stopping=lambda: is_stopping,
            )
            settings = RunSettings(
                output_dir=stage.folder, drafts_dir=stage.drafts, issuer="a test", batch_size=5
            )
            await scene(ReplayEngine(held.theatre, held.journal, around, settings))

    asyncio.run(perform())


def call(part: range, **needed: Callable[[int], bool]) -> Scene:
    return lambda engine: engine.call(part, **needed)


def activate(engine: ReplayEngine) -> Awaitable[object]:
    return engine.activate()


def in_parts(stage: Stage, parts: Sequence[range]) -> Finished:
    play(stage, activate, ScriptedAdapter(answer_as_asked))
    for part in parts:
        adapter = ScriptedAdapter(answer_as_asked)
        play(stage, call(part), adapter)
        asked = {request.input_data["seq"] for request in adapter.asked}
        assert asked == set(part)
    # What settles calls nobody any more.
    adapter = ScriptedAdapter(answer_as_asked)
    finished = stage.run(adapter)
    assert adapter.asked == []
    return finished


def results_of(finished: Finished) -> tuple[bytes, object, object]:
    return (
        (finished.bundle / "scores" / "per_episode.jsonl").read_bytes(),
        finished.document("scores/aggregate.json"),
        finished.document("tier.json"),
    )


def test_parts_in_any_order_give_the_results_of_the_whole(tmp_path: Path) -> None:
    whole = staged(tmp_path / "whole").run(ScriptedAdapter(answer_as_asked))
    finished = in_parts(staged(tmp_path / "parts"), PARTS)
    assert results_of(finished) == results_of(whole)
    assert checked(finished.bundle).consistent


def test_what_a_part_has_recorded_is_not_called_again(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    play(stage, activate, ScriptedAdapter())
    play(stage, call(range(3, 6)), ScriptedAdapter(answer_as_asked))
    adapter = ScriptedAdapter(answer_as_asked)
    play(stage, call(range(1, 9)), adapter)
    asked = {request.input_data["seq"] for request in adapter.asked}
    assert asked == {1, 2, 6, 7, 8}


def test_nobody_is_called_from_the_first_episode_on_that_cannot_count(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    adapter = ScriptedAdapter(answer_as_asked)
    play(stage, activate, adapter)
    play(stage, call(range(9, 17), is_needed=lambda seq: seq < 12), adapter)
    asked = {request.input_data["seq"] for request in adapter.asked}
    assert asked == {9, 10, 11}


def test_a_part_ends_with_its_own_failures_where_they_alone_end_the_run(tmp_path: Path) -> None:
    # More than a twentieth of 24, so the second failure ends the run; here it is the 20th episode.
    stage = staged(tmp_path, failure_threshold=0.05, max_concurrency=1, deterministic_sample=0)
    adapter = ScriptedAdapter(answer_as_asked)
    play(stage, activate, adapter)
    play(stage, call(range(9, 25)), adapter)
    asked = [request.input_data["seq"] for request in adapter.asked]
    assert asked == list(range(9, 21))
    finished = stage.run(adapter)
    counted = finished.document("scores/aggregate.json")["episode_counts"]
    assert counted == {
        "total": TOTAL,
        "scored": 17,
        "error": 2,
        "timeout": 0,
        "refused": 1,
        "unscored": 0,
        "not_run": 4,
    }


def test_a_part_that_is_to_stop_says_so(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    adapter = ScriptedAdapter(answer_as_asked)
    play(stage, activate, adapter)
    with pytest.raises(RunStoppedError):
        play(stage, call(range(1, 9)), adapter, is_stopping=True)
    assert adapter.asked == []


def test_nobody_is_called_before_the_theatre_is_active(tmp_path: Path) -> None:
    adapter = ScriptedAdapter()
    with pytest.raises(InvalidTransitionError, match="a theatre that is ACTIVE, got one in COMMI"):
        play(staged(tmp_path), call(range(1, 9)), adapter)
    assert adapter.asked == []
