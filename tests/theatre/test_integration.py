"""Chain, sanitising, shapes, repeats, computations and sixteen calls at a time in one theatre."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.arrivals import SIXTEEN, HeldAdapter, answered_one_by_one, play
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    PILOT,
    REFUSED,
    SANITISED,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    call_step,
    checked,
    episodes,
    pilot_stage,
    right,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.oracle_contract import OracleInvocationRequest

LOG = Path(__file__).parents[2] / "fixtures/ground_truth/product_observer_provenance_v1.jsonl"
EPISODES = 30
END = 21
"""The seventh failure, of more than a fifth: 3, 4, 7, 11, 14, 20 and then this one."""

PROGRAMME: list[JsonValue] = [
    call_step(
        PILOT, output_spec={"required": ["colour"]}, input_spec={"raw_fields": ["/untouched"]}
    ),
    {
        "step_id": "records",
        "type": "deterministic_computation",
        "input_spec": {"computation": "provenance_chain", "over": "records"},
    },
    {
        "step_id": "answers",
        "type": "deterministic_computation",
        "input_spec": {"computation": "provenance_chain"},
    },
    {"step_id": "sum_up", "type": "aggregation"},
]


def everything(folder: Path) -> Stage:
    """Return a theatre in which every way of ending an episode comes before its end."""
    failing: dict[int, JsonObject] = dict.fromkeys((7, 11, 14, 20, 21, 25), ERROR)
    records = episodes(EPISODES, {**failing, 5: REFUSED, 9: WRONG})
    texts: dict[int, JsonObject] = {
        1: {"text": "he\u200bllo", "untouched": "\u200b"},
        3: {"na\u200bme": "it cannot be sent"},
        24: {"text": "<|im_start|>"},
    }
    for seq, text in texts.items():
        cast("JsonObject", records[seq - 1]["input_data"]).update(text)
    return pilot_stage(
        folder,
        records,
        changes={
            **SANITISED,
            **CHAIN,
            **SIXTEEN,
            "/execution_policy/deterministic_sample": EPISODES,
            "/product_theatre_config/dataset_paths": {"records": "records.jsonl"},
            "/resolution_programme": PROGRAMME,
        },
        further={"records.jsonl": LOG.read_bytes()},
    )


class HeldEasel(HeldAdapter):
    """The chain's first construct; of two episodes it thinks otherwise the second time."""

    def __init__(self) -> None:
        super().__init__(self._answer_twice)
        self._known: set[str] = set()

    @property
    def computed_version(self) -> str:
        return EASEL_VERSION

    def _answer_twice(self, request: OracleInvocationRequest) -> JsonObject:
        again = request.episode_id in self._known
        self._known.add(request.episode_id)
        return {"output_data": {"second_thought": again and request.input_data["seq"] in {2, 8}}}


def pilot(request: OracleInvocationRequest) -> JsonObject:
    asked = request.input_data["episode"]
    if asked["seq"] == 4:
        return {"output_data": {"shapeless": True}}
    answer: JsonObject = asked.get("answer", right(request))
    return answer


def run(stage: Stage, choose: int, *, concurrency_limit: int | None) -> Finished:
    """Run with answers of the first construct that come in by place among those that are out."""
    easel = HeldEasel()

    def choice(out: Sequence[int]) -> int:
        return out[choose % len(out)]

    async def scene() -> Finished:
        running = asyncio.create_task(
            stage.perform(
                {EASEL: easel, PILOT: ScriptedAdapter(pilot)}, concurrency_limit=concurrency_limit
            )
        )
        return await answered_one_by_one(running, easel, choice)

    return play(scene)


def results(finished: Finished) -> tuple[object, ...]:
    """Return all that the order of arrival must not show in."""
    return (
        (finished.bundle / "scores/per_episode.jsonl").read_bytes(),
        finished.document("scores/aggregate.json"),
        finished.document("tier.json")["facts"],
        finished.steps()[1:],
    )


def test_one_call_at_a_time_gives_this(tmp_path: Path) -> None:
    finished = run(everything(tmp_path), 0, concurrency_limit=1)
    outcomes = [line["outcome"] for line in finished.lines("scores/per_episode.jsonl")]
    missing = {3, 4, 7, 11, 14, 20, 21}
    assert outcomes == [
        *("missing" if n in missing else "excluded" if n == 5 else "scored" for n in range(1, 22)),
        *["not_run"] * (EPISODES - END),
    ]
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["failures"], facts["refusals"]) == (2, 7, 1)
    intact = [
        cast("dict[str, JsonObject]", step["result"])["output"]["intact"]
        for step in finished.steps()[1:3]
    ]
    assert intact == [True, False]
    assert [check.as_document() for check in checked(finished.bundle).failed] == []


@pytest.mark.parametrize("limit", [3, 16])
@pytest.mark.parametrize("choose", [0, -1, 5])
def test_many_calls_at_a_time_give_the_same_and_pass_the_independent_check(
    tmp_path: Path, limit: int, choose: int
) -> None:
    alone = run(everything(tmp_path / "alone"), 0, concurrency_limit=1)
    together = run(everything(tmp_path / "together"), choose, concurrency_limit=limit)
    assert results(together) == results(alone)
    report = checked(together.bundle)
    assert [check.as_document() for check in report.failed] == []
    assert report.consistent
