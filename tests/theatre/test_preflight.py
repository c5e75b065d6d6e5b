"""Before the first call: whatever cannot be run as committed is refused, by name."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import pytest

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    PILOT,
    VERSION,
    Finished,
    RunOptions,
    ScriptedAdapter,
    Stage,
    call_step,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import (
    InvalidTransitionError,
    PinMismatchError,
    ProgrammeError,
    RehearsalAdapterError,
    TheatreError,
    UnknownScorerError,
)
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import RunContext
from theatre.engine.template_validator import TemplateValidator
from theatre.oracles.in_process import MockOracleAdapter
from theatre.scorers import load_scorers

REFUSED = "this version cannot run the template as committed: "
STEPS = "/resolution_programme"


def mock() -> MockOracleAdapter:
    return MockOracleAdapter(
        {}, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC), default={"output_data": {}}
    )


def refusal(
    stage: Stage,
    error: type[TheatreError],
    adapter: OracleAdapter | None = None,
    **options: Unpack[RunOptions],
) -> str:
    """Run, expect `error` before any call and without any trace, and return its message."""
    construct = adapter or ScriptedAdapter()
    before = (stage.folder / "audit_trail.jsonl").read_bytes()
    with pytest.raises(error) as caught:
        stage.run({PILOT: construct, EASEL: ScriptedAdapter(version=EASEL_VERSION)}, **options)
    assert stage.state == "COMMITTED"
    assert (stage.folder / "audit_trail.jsonl").read_bytes() == before
    assert not isinstance(construct, ScriptedAdapter) or construct.asked == []
    return str(caught.value)


def without_sanitiser(around: RunContext) -> RunContext:
    return replace(around, sanitiser=None)


def test_the_template_of_these_tests_is_valid_and_runs(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    report = TemplateValidator(load_scorers()).validate(stage.template)
    assert (report.errors, report.warnings) == ((), ())
    assert stage.run(ScriptedAdapter()).theatre.state == "RESOLVED"


def test_a_2_2_0_template_runs_and_its_bundle_is_checked(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        "/schema_version": "2.2.0",
        "/execution_policy/close_within_days": 7,
    }
    finished = pilot_stage(tmp_path, episodes(2), changes=changes).run(ScriptedAdapter())
    assert finished.document("template.json")["schema_version"] == "2.2.0"
    assert checked(finished.bundle).failed == ()


CALL = f"{STEPS}/0"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"/product_theatre_config/episode_runner": "chess"}, "episode_runner must be single_call"),
        (
            {f"{CALL}/construct_id": "another"},
            "the constructs that are called must include construct_under_test",
        ),
        (
            {STEPS: [call_step(), call_step(step_id="again")]},
            "a chain must name each construct once",
        ),
        (
            {**CHAIN, "/product_theatre_config/construct_chain": [PILOT, EASEL, PILOT]},
            "a chain must name each construct once",
        ),
        (
            {**CHAIN, STEPS: [call_step(PILOT), call_step(EASEL)]},
            "construct_chain must name the constructs of the construct_invocation steps in order",
        ),
        (
            {**CHAIN, STEPS: [call_step("another")]},
            "construct_chain must name the constructs of the construct_invocation steps in order",
        ),
        (
            {f"{CALL}/output_spec": {"type": "colour"}},
            "output_spec of step invoke, at /type: expected a JSON Schema 2020-12, got 'colour'",
        ),
        (
            {f"{CALL}/output_spec": {"$ref": "https:x"}},
            "output_spec of step invoke, at /$ref: expected a local reference (#…), got 'https:x'",
        ),
        (
            {f"{STEPS}/1/output_spec": {"type": "object"}},
            "output_spec of step aggregate must be left out: it has no output",
        ),
        (
            {f"{CALL}/input_spec": {"role_markers": "strip"}},
            "input_spec.role_markers must be break or flag, got 'strip'",
        ),
        (
            {f"{CALL}/input_spec": {"role_markers": None}},
            "input_spec.role_markers must be break or flag, got None",
        ),
        (
            {f"{CALL}/input_spec": {"role_markers": ["break"]}},
            "input_spec.role_markers must be break or flag, got ['break']",
        ),
        (
            {f"{CALL}/input_spec": {"role_markers": {}}},
            "input_spec.role_markers must be break or flag, got {}",
        ),
        (
            {f"{CALL}/input_spec": {"raw_fields": "/code"}},
            "input_spec.raw_fields must be an array of JSON pointers, got '/code'",
        ),
        (
            {f"{CALL}/input_spec": {"raw_fields": None}},
            "input_spec.raw_fields must be an array of JSON pointers, got None",
        ),
        (
            {f"{CALL}/input_spec": {"raw_fields": ["/code", "text", 1, "/a~2", "/~"]}},
            "; ".join(
                f"input_spec.raw_fields must be JSON pointers, got {seen}"
                for seen in ("'text'", "1", "'/a~2'", "'/~'")
            ),
        ),
    ],
)
def test_a_committed_policy_that_cannot_be_obeyed_is_refused_by_name(
    tmp_path: Path, changes: dict[str, JsonValue], problem: str
) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes=changes)
    assert refusal(stage, ProgrammeError) == REFUSED + problem


def test_all_policies_that_cannot_be_obeyed_are_named_at_once(tmp_path: Path) -> None:
    stage = pilot_stage(
        tmp_path,
        episodes(2),
        changes={
            "/product_theatre_config/episode_runner": "chess",
            f"{CALL}/input_spec": {"role_markers": "strip", "raw_fields": ["code"]},
            f"{CALL}/output_spec": {"minimum": "one"},
        },
    )
    assert refusal(stage, ProgrammeError) == REFUSED + (
        "episode_runner must be single_call; "
        "input_spec.role_markers must be break or flag, got 'strip'; "
        "input_spec.raw_fields must be JSON pointers, got 'code'; "
        "output_spec of step invoke, at /minimum: expected a JSON Schema 2020-12, got 'one'"
    )


@pytest.mark.parametrize("policy", [{}, {"sanitise_input": True}])
def test_a_run_that_is_to_sanitise_without_a_sanitiser_is_refused(
    tmp_path: Path, policy: JsonObject
) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes={"/execution_policy": policy})
    assert refusal(stage, ProgrammeError, around=without_sanitiser) == (
        f"{REFUSED}execution_policy.sanitise_input needs a sanitiser, and there is none"
    )


def test_where_nothing_is_sanitised_no_sanitiser_is_needed(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    finished = stage.run(ScriptedAdapter(), around=without_sanitiser)
    assert finished.resolution["outcome"] == "certified"


@pytest.mark.parametrize(
    "name", ["../escape", "dataset", "gold_labels", "a/b", ".hidden", "two words", "x" + "\n"]
)
def test_a_dataset_name_that_is_no_file_name_of_its_own_is_refused(
    tmp_path: Path, name: str
) -> None:
    stage = pilot_stage(
        tmp_path,
        episodes(2),
        further={"more.jsonl": b"{}\n"},
        changes={
            "/product_theatre_config/dataset_paths": {name: "more.jsonl"},
            "/product_theatre_config/gold_label_dataset_id": "labels",
        },
    )
    assert refusal(stage, ProgrammeError) == (
        f"{REFUSED}dataset_paths must have names that are file names, not dataset or gold_labels"
    )


RUBRIC: JsonObject = {"step_id": "taste", "type": "hitl_rubric"}
AGGREGATE: JsonObject = {"step_id": "aggregate", "type": "aggregation"}
ENTRY: JsonObject = {
    "step_id": "taste",
    "rubric": "Well?",
    "scoring_scale": {"min": 0, "max": 1},
    "criterion_id": "colour",
    "share": 0.5,
}


@pytest.mark.parametrize(
    ("steps", "entries", "problem"),
    [
        ([RUBRIC, AGGREGATE], [], "step taste must have its entry in hitl_steps"),
        ([AGGREGATE, RUBRIC], [ENTRY], "step taste must stand before the first aggregation"),
        (
            [RUBRIC | {"step_id": "../taste"}, AGGREGATE],
            [ENTRY | {"step_id": "../taste"}],
            "step_id '../taste' must be a file name: its scores become a file",
        ),
        (
            [RUBRIC, RUBRIC | {"step_id": "again"}],
            [ENTRY, ENTRY | {"step_id": "again"}],
            "; ".join(["criterion colour must have a share in one rating only"] * 2),
        ),
    ],
)
def test_a_rating_that_cannot_be_taken_as_committed_is_refused(
    tmp_path: Path, steps: list[JsonValue], entries: JsonValue, problem: str
) -> None:
    changes: dict[str, JsonValue] = {STEPS: [call_step(), *steps], "/hitl_steps": entries}
    stage = pilot_stage(tmp_path, episodes(2), changes=changes)
    assert refusal(stage, ProgrammeError) == REFUSED + problem


def test_an_escalation_that_leads_back_is_refused(tmp_path: Path) -> None:
    steps: list[JsonValue] = [call_step(), AGGREGATE | {"escalation_path": "call_pilot"}]
    stage = pilot_stage(tmp_path, episodes(2), changes={STEPS: steps})
    assert refusal(stage, ProgrammeError) == (
        "expected the escalation_path of step aggregate to be a later step or FAIL, got call_pilot"
    )


def test_a_programme_that_calls_nobody_is_refused(tmp_path: Path) -> None:
    steps: JsonValue = [{"step_id": "aggregate", "type": "aggregation"}]
    stage = pilot_stage(tmp_path, episodes(2), changes={STEPS: steps})
    message = "expected a construct_invocation step, got none"
    assert refusal(stage, ProgrammeError) == message


def test_a_mock_adapter_is_refused_by_its_type_whatever_it_calls_itself(tmp_path: Path) -> None:
    class Disguised(MockOracleAdapter):
        pin = "local@1"

    stage = pilot_stage(tmp_path, episodes(2), changes={"/version_pins": pins()})
    assert refusal(stage, RehearsalAdapterError, mock()) == (
        "expected an adapter that reaches a real construct, got mock@1: "
        "its canned answers can never back a certificate"
    )
    disguised = Disguised({}, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC))
    assert "can never back a certificate" in refusal(stage, RehearsalAdapterError, disguised)


def pins(**changes: JsonValue) -> dict[str, JsonValue]:
    return {"constructs": {PILOT: VERSION}, "scorer_version": "exact_match@1", **changes}


def test_an_adapter_in_another_version_than_the_committed_one_is_refused(tmp_path: Path) -> None:
    stage = pilot_stage(
        tmp_path, episodes(2), changes={"/version_pins": pins(adapter_version="local@2")}
    )
    assert refusal(stage, PinMismatchError) == (
        "expected adapter of pilot in version local@2 (committed), got local@1: commit a new "
        "theatre for the new version, or bring the old one back"
    )


def test_without_a_committed_adapter_version_any_adapter_of_the_committed_type_will_do(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes={"/version_pins": pins()})
    for other in ("imported@1", "harness@1", "mock@1", "http@1", "plain_local@1"):
        assert refusal(stage, PinMismatchError, ScriptedAdapter(pin=other)) == (
            f"adapter of pilot: expected the committed type local, got {other}"
        )
    finished = stage.run(ScriptedAdapter(pin="local@7"))
    assert finished.resolution["outcome"] == "certified"


def test_a_construct_in_another_version_than_the_pinned_one_is_refused_with_both_versions(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    other = "deadbeef" * 8
    assert refusal(stage, PinMismatchError, ScriptedAdapter(version=other)) == (
        f"expected construct pilot in version {VERSION} (committed), got {other}: commit a new "
        "theatre for the new version, or bring the old one back"
    )


def test_a_remote_construct_is_held_against_its_pin_answer_by_answer(tmp_path: Path) -> None:
    def claims_another(_: object) -> dict[str, JsonValue]:
        return {"construct_version": "deadbeef" * 8, "output_data": {"colour": "red"}}

    stage = pilot_stage(tmp_path, episodes(2))
    finished = stage.run(ScriptedAdapter(claims_another, version=None))
    assert finished.resolution["outcome_reason"] == "nothing-scored"


def test_a_scorer_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    scorers = {name: one for name, one in load_scorers().items() if name != "numeric_tolerance"}
    with pytest.raises(UnknownScorerError, match="expected scorer numeric_tolerance to be inst"):
        stage.run(ScriptedAdapter(), scorers=scorers)
    assert stage.state == "COMMITTED"


def test_a_scorer_in_another_version_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    scorers = dict(load_scorers())
    scorers["exact_match"] = replace(scorers["exact_match"], version="2")
    with pytest.raises(PinMismatchError) as caught:
        stage.run(ScriptedAdapter(), scorers=scorers)
    assert str(caught.value) == (
        "expected scorer exact_match in version 1 (pinned), got 2 (installed)"
    )
    assert stage.state == "COMMITTED"


def test_a_resolved_theatre_is_not_run_again(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    finished: Finished = stage.run(ScriptedAdapter())
    before = (finished.folder / "audit_trail.jsonl").read_bytes()
    again = ScriptedAdapter()
    with pytest.raises(InvalidTransitionError) as caught:
        stage.run(again)
    assert str(caught.value) == "expected a theatre that is still to run, got one in RESOLVED"
    assert (again.asked, (finished.folder / "audit_trail.jsonl").read_bytes()) == ([], before)
