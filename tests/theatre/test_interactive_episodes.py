"""Episodes of several calls: a runner asks, the check plays the whole episode again."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import (
    REGISTRY,
    check,
    failed_ids,
    load,
    store,
)
from tests.theatre.record_edits import Edit, forged, of_call, of_record
from tests.theatre.rlmf_runs import EXPORTED_AT
from tests.theatre.runs import (
    CHAIN,
    COIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    LATE,
    PILOT,
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    episodes,
    pilot_stage,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.plan import committed_plan
from theatre.engine.bundle_check.report import DefectError
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.coin import Draws
from theatre.engine.errors import DatasetError, ProgrammeError
from theatre.engine.models import EpisodePlay, EpisodeRunner
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext
from theatre.engine.rlmf_export import RlmfExport
from theatre.engine.schema_registry import SchemaViolation
from theatre.engine.scoring.repeats import outputs_of
from theatre.scorers import load_episode_runners

PLAYED: dict[str, JsonValue] = {"/product_theatre_config/episode_runner": "countdown"}
TURNS = 3
BEHIND = "record {}: a turn behind one that failed, or a second round"


def countdown(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Ask three times for a colour; the result is the last one, and who asked by which seed."""
    colours: list[JsonValue] = []
    for left in range(TURNS, 0, -1):
        answer = yield {"left": left, "so_far": [*colours]}
        colours.append(answer.get("colour"))
    return {"colour": colours[-1], "recall": 0.5, "seed": seed, "of": input_data["seq"]}


RUNNER = EpisodeRunner(name="countdown", version="1", max_calls=TURNS, play=countdown)
NEWER = replace(RUNNER, version="2")


def with_runner(around: RunContext) -> RunContext:
    return replace(around, runners={"countdown": RUNNER})


def red_or_failing(stage: Stage) -> Answer:
    """Return a construct that answers red, but fails the second turn of episode 2."""
    second = stage.draws.alias("pilot-2")

    def answer(request: OracleInvocationRequest) -> JsonObject:
        if request.episode_id == second and request.input_data["left"] == TURNS - 1:
            return {**ERROR}
        return {"output_data": {"colour": "red"}}

    return answer


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    stage = pilot_stage(
        tmp_path_factory.mktemp("played"),
        episodes(3),
        changes={**PLAYED, "/execution_policy/on_threshold": "continue"},
    )
    return stage.run({PILOT: ScriptedAdapter(red_or_failing(stage))}, around=with_runner)


def checked(bundle: Path, *runners: EpisodeRunner) -> CheckReport:
    return check(bundle, runners={runner.name: runner for runner in runners})


def test_an_episode_is_as_many_calls_as_its_runner_asks_for(run: Finished) -> None:
    record: dict[str, Any] = run.record(1)
    requests = [call["request"] for call in record["calls"]]
    assert [request["input_data"] for request in requests] == [
        {"left": 3, "so_far": []},
        {"left": 2, "so_far": ["red"]},
        {"left": 1, "so_far": ["red", "red"]},
    ]
    theatre_id = requests[0]["theatre_id"]
    draws = Draws(COIN, str(run.document("certificate.json")["commitment_hash"]))
    assert [request["invocation_id"] for request in requests] == [
        draws.invocation_id(str(theatre_id), seq=1, turn=turn) for turn in range(TURNS)
    ]
    assert (record["runner"], record["sanitised"], record["episode_result"]) == (
        "countdown@1",
        None,
        {"colour": "red", "recall": 0.5, "seed": draws.play_seed("pilot-1"), "of": 1},
    )


def test_scorers_see_what_the_runner_made_of_it(run: Finished) -> None:
    certificate = run.document("certificate.json")
    # The episode that failed counts as 0.
    assert certificate["scores"] == {"colour": 0.666666667, "recall": 0.666666667}
    counts: Any = certificate["episode_counts"]
    assert (counts["scored"], counts["error"]) == (2, 1)


def test_whoever_reads_the_record_finds_the_result_and_of_a_failed_episode_nothing(
    run: Finished,
) -> None:
    result = run.record(1)["episode_result"]
    assert outputs_of(run.record(1)) == {PILOT: result}
    assert outputs_of(run.record(2)) == {}


def test_training_records_hold_what_the_runner_made_of_it(run: Finished) -> None:
    export = RlmfExport(run.bundle, REGISTRY, exported_at=EXPORTED_AT)
    records: list[Any] = [parse_object(line) for line in export.lines()]
    assert [record["state_features"]["construct_output"] for record in records] == [
        run.record(1)["episode_result"],
        None,
        run.record(3)["episode_result"],
    ]
    # Of its last answer alone the first would fall short, which has no `recall`.
    assert [record["replay_output_class"] for record in records] == [
        "meets",
        "falls_short",
        "meets",
    ]


def test_a_turn_that_fails_is_the_last_and_leaves_no_result(run: Finished) -> None:
    assert (len(run.calls(2)), run.record(2)["episode_result"]) == (2, None)


def test_an_episode_that_asks_nothing_ends_its_run(tmp_path: Path) -> None:
    """So do two probes whose first attempts the control loop does not reject."""

    def asks_nothing(input_data: JsonObject, _: str) -> EpisodePlay:
        if input_data["seq"] == 1:
            yield {}
        return {}

    stage = pilot_stage(tmp_path, episodes(3), changes=PLAYED)
    runners = {"countdown": replace(RUNNER, play=asks_nothing)}
    with pytest.raises(DatasetError, match="got pilot-2, which ends before its first call"):
        stage.run(ScriptedAdapter(), around=partial(replace, runners=runners))


def test_the_check_plays_every_episode_again(run: Finished) -> None:
    report = checked(run.bundle, RUNNER)
    assert failed_ids(report) == set()
    assert not report.unavailable
    assert verify(run.bundle, now=LATE).word == "consistent"


@pytest.mark.parametrize(
    ("seq", "edit", "problem"),
    [
        (1, of_record("runner", to="poker@1"), "record 1: another runner than was committed"),
        (1, of_call(1, "repeat", to=1), BEHIND.format(1)),
        (2, lambda record: record["calls"].append(record["calls"][0]), BEHIND.format(2)),
        (2, of_record("episode_result", to={}), "record 2: a result of an episode that failed"),
        (1, lambda record: record.pop("runner"), "not of the expected form (KeyError: 'runner')"),
    ],
)
def test_without_any_runner_verify_bundle_still_sees_what_no_episode_can_be(
    run: Finished, tmp_path: Path, seq: int, edit: Edit, problem: str
) -> None:
    bundle = store(forged(load(run.bundle), seq, edit), tmp_path / "bundle")
    assert problem in verify(bundle, now=LATE).problems["invocations"]


@pytest.mark.parametrize(
    ("seq", "edit"),
    [
        (1, of_record("episode_result", "colour", to="blue")),
        (1, of_record("episode_result", "seed", to="mine")),
        (1, of_record("episode_result", to=None)),
        (1, lambda record: record.pop("episode_result")),
        (1, lambda record: record["calls"].pop()),
        (1, lambda record: record["calls"].append(record["calls"][-1])),
        (1, lambda record: record["calls"].reverse()),
        (1, of_call(1, "request", "input_data", "left", to=9)),
        (1, of_call(1, "request", "invocation_id", to="0" * 36)),
        (1, of_call(1, "attempts", 0, "response", "output_data", "colour", to="blue")),
        (2, of_record("episode_result", to={"colour": "red", "recall": 0.5})),
        (2, lambda record: record["calls"].pop()),
    ],
)
def test_a_forged_episode_does_not_play_out_as_recorded(
    run: Finished, tmp_path: Path, seq: int, edit: Edit
) -> None:
    bundle = store(forged(load(run.bundle), seq, edit), tmp_path / "bundle")
    assert "invocations" in failed_ids(checked(bundle, RUNNER))


def test_an_input_that_the_runner_does_not_take_is_refused_by_the_check(run: Finished) -> None:
    closed = replace(RUNNER, input_schema={"required": ["scenario"]})
    assert "invocations" in failed_ids(checked(run.bundle, closed))


SEED = "0a" * 32
CASE: JsonObject = {"debate_id": "d"}
DEBATE: JsonObject = {"turns": ["one"]}
PROBE: JsonObject = {"case": CASE, "opening": {}}
TAKEN: list[tuple[str, JsonObject]] = [
    ("axion", {"scenario": "basic", "scenario_seed": SEED}),
    ("axion_pair", {"scenario": "social", "scenario_seed": SEED, "clutter": 4}),
    ("debate", {"play": "audit", "debate": DEBATE, "earlier": {}, "twin": {"debate": DEBATE}}),
    ("debate", {"play": "team", "case": CASE}),
    ("debate", {"play": "control", "case": CASE}),
    ("debate", {"play": "probes", "begun_true": PROBE, "begun_false": PROBE}),
]
NOT_TAKEN: list[tuple[str, JsonObject]] = [
    *((runner, {**one, "note": "another"}) for runner, one in TAKEN),
    ("axion", {"scenario": "basic", "scenario_seed": SEED.upper()}),
    ("axion", {"scenario": "basic", "scenario_seed": f"{SEED}00"}),
    ("axion", {"scenario": "basic", "scenario_seed": SEED, "clutter": 0}),
    ("debate", {}),
    ("debate", {"play": "audit"}),
    ("debate", {"play": "audit", "debate": DEBATE, "earlier": None}),
    ("debate", {"play": "audit", "debate": DEBATE, "twin": {"debate": DEBATE, "note": 1}}),
    ("debate", {"play": "team", "case": {}}),
    ("debate", {"play": "probes", "begun_true": PROBE, "begun_false": {**PROBE, "note": 1}}),
]


def faults(runner: str, one: JsonObject) -> list[SchemaViolation]:
    return REGISTRY.validate_inline(load_episode_runners()[runner].input_schema, one)


@pytest.mark.parametrize(("runner", "one"), TAKEN)
def test_a_shipped_runner_takes_what_it_can_play(runner: str, one: JsonObject) -> None:
    assert faults(runner, one) == []


@pytest.mark.parametrize(("runner", "one"), NOT_TAKEN)
def test_it_takes_no_member_that_no_play_looks_at(runner: str, one: JsonObject) -> None:
    """By such a one copies of a question would count as many, and by a gap a play would crash."""
    assert faults(runner, one) != []


def test_another_version_of_the_runner_is_unavailable_not_wrong(run: Finished) -> None:
    report = checked(run.bundle, NEWER)
    assert "invocations" not in failed_ids(report)
    assert report.unavailable


def test_without_the_runner_nothing_is_passed_off_as_checked(run: Finished) -> None:
    assert "template" in failed_ids(checked(run.bundle))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"/execution_policy/sanitise_input": True}, "an episode_runner must have sanitise_input"),
        (
            {"/execution_policy/deterministic_sample": 1},
            "an episode_runner must have deterministic_sample 0",
        ),
        ({**CHAIN}, "countdown plays 1, not 2 [(]easel, pilot[)]"),
        (
            {"/execution_policy/retry_policy": {"max_retries": 10}},
            "max_retries, repeats and deterministic_sample must allow",
        ),
    ],
)
def test_what_no_interactive_episode_can_be_committed_to_is_refused(
    tmp_path: Path, changes: dict[str, JsonValue], problem: str
) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes={**PLAYED, **changes})
    asking = replace(RUNNER, max_calls=20)

    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, runners={"countdown": asking})

    adapters = {PILOT: ScriptedAdapter(), EASEL: ScriptedAdapter(version=EASEL_VERSION)}
    with pytest.raises(ProgrammeError, match=problem):
        stage.run(adapters, around=around)
    assert stage.state == "COMMITTED"


@pytest.mark.parametrize("member", ["sanitise_input", "deterministic_sample"])
def test_the_check_reads_no_plan_of_a_play_that_cannot_be(member: str, run: Finished) -> None:
    template: dict[str, Any] = run.document("template.json")
    template["execution_policy"][member] = 1 if member == "deterministic_sample" else True
    with pytest.raises(DefectError, match="an interactive episode with 1 of its constructs"):
        committed_plan(template, runners={"countdown": RUNNER})
