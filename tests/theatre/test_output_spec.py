"""The committed shape of an answer: what does not fit is an error of the construct."""

from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    PILOT,
    REFUSED,
    VERSION,
    Answer,
    Finished,
    ScriptedAdapter,
    call_step,
    episodes,
    pilot_stage,
    right,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.oracle_contract import MAX_ANSWER_BYTES, OracleInvocationRequest

STEPS = "/resolution_programme"
COLOURED: JsonObject = {
    "type": "object",
    "required": ["colour", "recall"],
    "properties": {
        "colour": {"enum": ["red", "blue"]},
        "recall": {"$ref": "#/$defs/share"},
        "shades": {"type": "array", "items": {"type": "string"}},
    },
    "$defs": {"share": {"type": "number", "minimum": 0, "maximum": 1}},
}
MISFIT: JsonObject = {"colour": "red", "recall": 0.5, "shades": ["dark", 7]}


def constant(output: JsonObject) -> Answer:
    return lambda _: {"output_data": {**output}}


def run(folder: Path, answer: Answer, spec: JsonObject, *, retries: int = 0) -> Finished:
    """Ask twice: the first episode is answered rightly, so that there is a bundle to look into."""
    changes: dict[str, JsonValue] = {
        STEPS: [call_step(output_spec=spec), {"step_id": "aggregate", "type": "aggregation"}],
        "/execution_policy/retry_policy": {"max_retries": retries, "backoff_seconds": 0},
        "/execution_policy/on_threshold": "continue",
    }
    stage = pilot_stage(folder, episodes(2), changes=changes)
    return stage.run(ScriptedAdapter(from_the_second_on(answer)))


def from_the_second_on(answer: Answer) -> Answer:
    """Return a construct that answers the first episode as expected and all others so."""

    def respond(request: OracleInvocationRequest) -> JsonObject:
        asked = request.input_data.get("episode", request.input_data)
        return (right if asked["seq"] == 1 else answer)(request)

    return respond


def attempts(finished: Finished, seq: int = 2, hop: int = 0) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", finished.calls(seq)[hop]["attempts"])


def outcome(finished: Finished, seq: int = 2) -> JsonValue:
    return finished.lines("scores/per_episode.jsonl")[seq - 1]["outcome"]


def test_an_answer_of_the_committed_shape_is_taken_as_it_is(tmp_path: Path) -> None:
    output: JsonObject = {**EXPECTED, "shades": ["dark"], "more": 1}
    finished = run(tmp_path, constant(output), COLOURED)
    (attempt,) = attempts(finished)
    assert (attempt["reason"], attempt["raw"]) == (None, None)
    assert attempt["response"]["output_data"] == output
    assert outcome(finished) == "scored"


def test_a_misfit_is_an_error_with_the_place_and_the_answer_itself(tmp_path: Path) -> None:
    finished = run(tmp_path, constant(MISFIT), COLOURED)
    assert attempts(finished) == [
        {
            "reason": "output-spec",
            "raw": '{"colour":"red","recall":0.5,"shades":["dark",7]}',
            "stderr": None,
            "response": {
                "invocation_id": cast("JsonObject", finished.calls(2)[0]["request"])[
                    "invocation_id"
                ],
                "construct_id": PILOT,
                "construct_version": VERSION,
                "output_data": None,
                "latency_ms": 7,
                "status": "error",
                "error_detail": "expected output_data to fit output_spec, got at /shades/1: "
                "expected string, got integer",
                "responded_at": "2026-11-21T12:00:06.000000Z",
            },
        }
    ]
    assert outcome(finished) == "missing"
    (event,) = [
        cast("JsonObject", entry["detail"])
        for entry in finished.trail
        if entry["event_type"] == "episode_failed"
    ]
    assert (event["seq"], event["hop"], event["reason"]) == (2, 0, "output-spec")


@pytest.mark.parametrize(
    ("output", "place"),
    [
        ({}, "/: expected member colour"),
        ({"colour": "green", "recall": 0.5}, "/colour: "),
        ({"colour": "red", "recall": 1.5}, "/recall: "),
        ({"colour": "red", "recall": True}, "/recall: "),
        ({"colour": "red", "recall": 0.5, "shades": {}}, "/shades: "),
    ],
)
def test_the_detail_begins_with_the_pointer_to_the_first_misfit(
    tmp_path: Path, output: JsonObject, place: str
) -> None:
    (attempt,) = attempts(run(tmp_path, constant(output), COLOURED))
    assert attempt["reason"] == "output-spec"
    prefix = "expected output_data to fit output_spec, got at "
    assert attempt["response"]["error_detail"].startswith(prefix + place)


def test_a_misfit_is_final_whatever_the_policy(tmp_path: Path) -> None:
    finished = run(tmp_path, constant(MISFIT), COLOURED, retries=2)
    assert [attempt["reason"] for attempt in attempts(finished)] == ["output-spec"]
    assert outcome(finished) == "missing"


@pytest.mark.parametrize(("answer", "ends_as"), [(ERROR, "missing"), (REFUSED, "excluded")])
def test_only_a_success_has_a_shape(tmp_path: Path, answer: JsonObject, ends_as: str) -> None:
    finished = run(tmp_path, lambda _: {**answer, "output_data": {"no": "shape"}}, COLOURED)
    (attempt,) = attempts(finished)
    assert (attempt["reason"], attempt["response"]["status"]) == (None, answer["status"])
    assert attempt["response"]["output_data"] == {"no": "shape"}
    assert outcome(finished) == ends_as


def test_an_empty_output_spec_lets_everything_pass(tmp_path: Path) -> None:
    (attempt,) = attempts(run(tmp_path, constant({"any": ["thing"]}), {}))
    assert (attempt["reason"], attempt["response"]["status"]) == (None, "success")


def test_a_large_misfit_is_kept_up_to_the_limit(tmp_path: Path) -> None:
    output: JsonObject = {"text": "x" * (MAX_ANSWER_BYTES - 1000)}
    (attempt,) = attempts(run(tmp_path, constant(output), COLOURED))
    assert attempt["raw"] == '{"text":"' + "x" * (MAX_ANSWER_BYTES - 1000) + '"}'
    # Each of these is two bytes in JSON, so the record may hold half of them.
    quotes: JsonObject = {"text": '"' * (MAX_ANSWER_BYTES // 2 - 1000)}
    (attempt,) = attempts(run(tmp_path / "quotes", constant(quotes), COLOURED))
    whole = '{"text":"' + '\\"' * (MAX_ANSWER_BYTES // 2 - 1000) + '"}'
    assert 0 < len(attempt["raw"]) < len(whole)
    assert whole.startswith(attempt["raw"])


def chained(folder: Path, steps: list[JsonValue], easel: Answer, pilot: Answer) -> Finished:
    stage = pilot_stage(
        folder,
        episodes(2),
        changes={**CHAIN, STEPS: steps, "/execution_policy/on_threshold": "continue"},
    )

    return stage.run(
        {
            EASEL: ScriptedAdapter(from_the_second_on(easel), version=EASEL_VERSION),
            PILOT: ScriptedAdapter(from_the_second_on(pilot)),
        }
    )


def reasons(finished: Finished) -> list[JsonValue]:
    return [attempts(finished, hop=n)[-1]["reason"] for n in range(len(finished.calls(2)))]


@pytest.mark.parametrize("named", [EASEL, PILOT])
def test_the_shape_of_a_single_step_is_that_of_the_last_output(tmp_path: Path, named: str) -> None:
    steps: list[JsonValue] = [call_step(named, output_spec=COLOURED)]
    first = chained(tmp_path / "first", steps, constant(MISFIT), constant(EXPECTED))
    assert reasons(first) == [None, None]
    last = chained(tmp_path / "last", steps, constant(EXPECTED), constant(MISFIT))
    assert reasons(last) == [None, "output-spec"]


def test_each_step_of_a_chain_has_a_shape_of_its_own(tmp_path: Path) -> None:
    steps: list[JsonValue] = [
        call_step(EASEL, output_spec={"required": ["colour"]}),
        call_step(PILOT, output_spec=COLOURED),
    ]
    blank = chained(tmp_path / "blank", steps, constant({}), constant(EXPECTED))
    assert reasons(blank) == ["output-spec"]
    bare = chained(tmp_path / "bare", steps, constant({"colour": 1}), constant(EXPECTED))
    assert reasons(bare) == [None, None]


def test_a_repeat_that_does_not_fit_differs(tmp_path: Path) -> None:
    tries = count()
    steps: list[JsonValue] = [call_step(output_spec=COLOURED)]
    stage = pilot_stage(
        tmp_path, episodes(1), changes={STEPS: steps, "/execution_policy/deterministic_sample": 1}
    )
    finished = stage.run(
        ScriptedAdapter(lambda _: {"output_data": {**(MISFIT if next(tries) else EXPECTED)}})
    )
    assert [call["repeat"] for call in finished.calls(1)] == [0, 1]
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["failures"]) == (1, 0)
