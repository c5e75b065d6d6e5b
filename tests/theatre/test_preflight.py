"""Before the first call: whatever cannot be run as committed is refused, by name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.runs import (
    PILOT,
    VERSION,
    Finished,
    ScriptedAdapter,
    Stage,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonValue
from theatre.engine.errors import (
    InvalidTransitionError,
    PinMismatchError,
    ProgrammeError,
    RehearsalAdapterError,
    TheatreError,
    UnknownScorerError,
)
from theatre.engine.template_validator import TemplateValidator
from theatre.oracles.mock import MockOracleAdapter
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
    adapter: ScriptedAdapter | MockOracleAdapter | None = None,
) -> str:
    """Run, expect `error` before any call and without any trace, and return its message."""
    construct = adapter or ScriptedAdapter()
    before = (stage.folder / "audit_trail.jsonl").read_bytes()
    with pytest.raises(error) as caught:
        stage.run(construct)
    assert stage.state == "COMMITTED"
    assert (stage.folder / "audit_trail.jsonl").read_bytes() == before
    assert not isinstance(construct, ScriptedAdapter) or construct.asked == []
    return str(caught.value)


def test_the_template_of_these_tests_is_valid_and_runs(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    report = TemplateValidator(load_scorers()).validate(stage.template)
    assert (report.errors, report.warnings) == ((), ())
    assert stage.run(ScriptedAdapter()).theatre.state == "RESOLVED"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"/execution_policy/sanitise_input": True},
            "execution_policy.sanitise_input must be committed as false",
        ),
        (
            {"/execution_policy": {}},
            "execution_policy.sanitise_input must be committed as false",
        ),
        (
            {"/execution_policy/deterministic_sample": 1},
            "execution_policy.deterministic_sample must be 0",
        ),
        (
            {"/product_theatre_config/construct_chain": ["easel", PILOT]},
            "construct_chain must name one construct",
        ),
        (
            {
                "/product_theatre_config/construct_endpoints": {
                    PILOT: {"adapter_type": "local", "endpoint": f"construct:{PILOT}"}
                }
            },
            "construct_endpoints must be left out",
        ),
        (
            {"/product_theatre_config/episode_runner": "chess"},
            "episode_runner must be single_call",
        ),
        (
            {f"{STEPS}/0/output_spec": {"type": "object"}},
            "output_spec must be left out",
        ),
        (
            {f"{STEPS}/0/construct_id": "another"},
            "construct_invocation must name construct_under_test",
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
            "/execution_policy": {"deterministic_sample": 3},
            "/product_theatre_config/episode_runner": "chess",
        },
    )
    assert refusal(stage, ProgrammeError) == REFUSED + (
        "execution_policy.sanitise_input must be committed as false; "
        "execution_policy.deterministic_sample must be 0; "
        "episode_runner must be single_call"
    )


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


@pytest.mark.parametrize("step_type", ["deterministic_computation", "hitl_rubric"])
def test_a_step_that_cannot_be_executed_is_refused_by_name(tmp_path: Path, step_type: str) -> None:
    changes: dict[str, JsonValue] = {f"{STEPS}/1": {"step_id": "later", "type": step_type}}
    stage = pilot_stage(tmp_path, episodes(2), changes=changes)
    assert refusal(stage, ProgrammeError).endswith(f"cannot execute: later ({step_type})")


def test_a_mock_adapter_is_refused_by_its_type_whatever_it_calls_itself(tmp_path: Path) -> None:
    class Disguised(MockOracleAdapter):
        @property
        def pin(self) -> str:
            return "local@1"

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


def test_without_a_committed_adapter_version_any_adapter_will_do(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes={"/version_pins": pins()})
    finished = stage.run(ScriptedAdapter(pin="other@7"))
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
    scorers = load_scorers()
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
