"""Interactive episodes of two constructs: the runner says whose turn it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import (
    check,
    failed_ids,
    load,
    store,
)
from tests.theatre.record_edits import Edit, forged, of_call, of_record
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    PILOT,
    VERSION,
    Finished,
    ScriptedAdapter,
    Stage,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import EpisodePlay, EpisodeRunner, Turn
from theatre.engine.oracle_contract import OracleInvocationRequest

ORDER = (0, 1, 1, 0)


def alternating(input_data: JsonObject, _: str) -> EpisodePlay:
    """Ask both in turn and tell each what the other said; the last colour is the result's."""
    said = "nothing"
    for hop in ORDER:
        answer = yield Turn(hop, {"heard": said})
        said = str(answer.get("colour"))
    return {"colour": said, "recall": 0.5, "of": input_data["seq"]}


RUNNER = EpisodeRunner(
    name="alternating", version="1", max_calls=len(ORDER), play=alternating, constructs=2
)


def stage_of(folder: Path, *, count: int = 3) -> Stage:
    changes = {
        **CHAIN,
        "/product_theatre_config/episode_runner": RUNNER.name,
        "/execution_policy/on_threshold": "continue",
    }
    return pilot_stage(folder, episodes(count), changes=changes)


def run_with(stage: Stage, runner: EpisodeRunner = RUNNER) -> Finished:
    second = stage.draws.alias("pilot-2")

    def failing_in_the_second(request: OracleInvocationRequest) -> JsonObject:
        return {**ERROR} if request.episode_id == second else {"output_data": {"colour": "red"}}

    adapters = {
        EASEL: ScriptedAdapter(painted("blue"), version=EASEL_VERSION),
        PILOT: ScriptedAdapter(failing_in_the_second),
    }
    return stage.run(adapters, around=lambda around: replace(around, runners={RUNNER.name: runner}))


def painted(colour: str) -> Any:  # noqa: ANN401 - an answer of a ScriptedAdapter
    return lambda _: {"output_data": {"colour": colour}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_with(stage_of(tmp_path_factory.mktemp("two")))


def failed(bundle: Path, runner: EpisodeRunner = RUNNER) -> set[str]:
    return failed_ids(check(bundle, runners={runner.name: runner}))


def test_each_turn_goes_to_the_construct_that_the_runner_names(run: Finished) -> None:
    record: Any = run.record(1)
    assert [
        (call["hop"], call["construct_id"], call["request"]["input_data"])
        for call in record["calls"]
    ] == [
        (0, EASEL, {"heard": "nothing"}),
        (1, PILOT, {"heard": "blue"}),
        (1, PILOT, {"heard": "red"}),
        (0, EASEL, {"heard": "red"}),
    ]
    assert failed(run.bundle) == set()


def test_the_certificate_names_both_and_a_failed_turn_of_either_fails_the_episode(
    run: Finished,
) -> None:
    certificate = run.document("certificate.json")
    assert certificate["construct_chain_versions"] == {EASEL: EASEL_VERSION, PILOT: VERSION}
    counts: Any = certificate["episode_counts"]
    assert (counts["scored"], counts["error"]) == (2, 1)
    # Easel has the last word, and its blue is not what was expected.
    assert certificate["scores"] == {"colour": 0, "recall": 0.666666667}


@pytest.mark.parametrize(
    ("seq", "edit"),
    [
        (1, of_call(1, "hop", to=0)),
        (1, of_call(1, "construct_id", to=EASEL)),
        (1, of_call(1, "attempts", 0, "response", "output_data", "colour", to="green")),
        (1, of_call(3, "request", "construct_id", to=PILOT)),
        (1, of_record("episode_result", "colour", to="red")),
        (1, lambda record: record["calls"].pop()),
    ],
)
def test_a_turn_that_is_moved_or_changed_does_not_play_out(
    run: Finished, tmp_path: Path, seq: int, edit: Edit
) -> None:
    bundle = store(forged(load(run.bundle), seq, edit), tmp_path / "bundle")
    assert "invocations" in failed(bundle)


def test_a_version_of_the_other_construct_is_no_pin(run: Finished, tmp_path: Path) -> None:
    edit = of_call(1, "attempts", 0, "response", "construct_version", to=EASEL_VERSION)
    bundle = store(forged(load(run.bundle), 1, edit), tmp_path / "bundle")
    assert "version-pins" in failed(bundle)


@pytest.mark.parametrize("plays", [1, 3])
def test_a_runner_of_another_number_of_constructs_is_refused(tmp_path: Path, plays: int) -> None:
    stage = stage_of(tmp_path, count=1)
    with pytest.raises(ProgrammeError, match=f"alternating plays {plays}, not 2"):
        run_with(stage, replace(RUNNER, constructs=plays))
    assert stage.state == "COMMITTED"


def test_the_check_reads_no_plan_for_a_runner_of_one_construct(run: Finished) -> None:
    assert "template" in failed(run.bundle, replace(RUNNER, constructs=1))
