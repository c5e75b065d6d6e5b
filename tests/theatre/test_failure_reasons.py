"""Why a run has no certificate: counts by status, and what went wrong most often."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.runs import ScriptedAdapter, answer_as_asked, episodes, pilot_stage
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.replay import FailureReasons, reasons_with_examples

STATUSES = {"success": 0, "refused": 0, "timeout": 0, "error": 0}


def recorded(**statuses: int) -> JsonObject:
    return {"seq": 0, "event_type": "episodes_recorded", "detail": {"statuses": {**statuses}}}


def failed(
    seq: int, detail: str | None, *, reason: str | None = "crashed", episode: str = "sum-1"
) -> JsonObject:
    trouble: JsonObject = {
        "seq": seq,
        "episode_id": episode,
        "status": "error",
        "reason": reason,
        "error_detail": detail,
    }
    return {"seq": seq, "event_type": "episode_failed", "detail": trouble}


def reasons_of(*entries: JsonObject, unscored: int = 0) -> tuple[FailureReasons, list[JsonValue]]:
    found = FailureReasons()
    for entry in entries:
        found.take(entry)
    return found, found.most_frequent(unscored)


def shown(
    found: FailureReasons, reasons: list[JsonValue], records: dict[int, JsonObject] | None = None
) -> list[JsonObject]:
    return cast(
        "list[JsonObject]", reasons_with_examples(reasons, found.details(reasons), records or {})
    )


def test_statuses_are_summed_over_all_batches() -> None:
    found, reasons = reasons_of(recorded(error=2, success=1), recorded(error=1, timeout=4))
    assert found.statuses == STATUSES | {"success": 1, "error": 3, "timeout": 4}
    assert reasons == []


def test_failures_are_grouped_by_code_and_by_what_does_not_change_in_their_details() -> None:
    entries = [
        failed(3, "KeyError at line 12 of 0x7f00deadbeef"),
        failed(4, "no answer", reason="timeout"),
        failed(5, "KeyError at line 7 of 0x7f11deadbeef"),
        failed(6, "ZeroDivisionError"),
        failed(7, None, reason=None),
        failed(8, "no answer", reason="timeout"),
        failed(9, "KeyError at line 12 of 0x7f22deadbeef"),
    ]
    found, reasons = reasons_of(*entries)
    assert reasons == [
        {"code": "crashed", "count": 3, "entry": 3},
        {"code": "timeout", "count": 2, "entry": 4},
        {"code": "crashed", "count": 1, "entry": 6},
    ]
    assert shown(found, reasons)[0] == {
        "code": "crashed",
        "count": 3,
        "example": {
            "episode_id": "sum-1",
            "error_detail": "KeyError at line 12 of 0x7f00deadbeef",
            "stderr": None,
        },
    }


def test_a_failure_without_a_code_of_the_engine_has_its_status_for_one() -> None:
    assert reasons_of(failed(1, "said so itself", reason=None))[1] == [
        {"code": "error", "count": 1, "entry": 1}
    ]


def test_answers_that_no_scorer_could_score_are_a_reason_without_an_example() -> None:
    found, reasons = reasons_of(failed(1, "x"), unscored=2)
    assert reasons == [
        {"code": "unscored", "count": 2, "entry": None},
        {"code": "crashed", "count": 1, "entry": 1},
    ]
    assert shown(found, reasons)[0] == {"code": "unscored", "count": 2, "example": None}


@pytest.mark.parametrize(
    ("detail", "line", "last"),
    [
        ("a\x1b[31mred\x07\r\n  b\tc\u202e", "a[31mred b c", "b c"),
        ("x" * 2000, "x" * 300, "x" * 300),
        (None, "", "Traceback"),
    ],
)
def test_an_example_is_one_short_line_without_control_characters(
    detail: str | None, line: str, last: str
) -> None:
    record: JsonObject = {
        "calls": [{"repeat": 0, "attempts": [{"stderr": f"Traceback\n{detail or ''}\n\x07\n"}]}]
    }
    found, reasons = reasons_of(failed(1, detail, episode="e\x00" * 400))
    (reason,) = shown(found, reasons, {1: record})
    assert reason["example"] == {"episode_id": "e" * 300, "error_detail": line, "stderr": last}


def test_however_many_reasons_there_are_memory_and_answer_stay_bounded() -> None:
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(5000)]
    found, reasons = reasons_of(*(failed(n, name) for n, name in enumerate(names)))
    assert len(found._groups) == 1001  # noqa: SLF001  # the bound is what is under test
    assert reasons[0] == {"code": "crashed", "count": 4000, "entry": 1000}
    assert len(json.dumps(reasons)) < 300


def test_a_run_that_fails_says_why_and_certified_ones_say_nothing(tmp_path: Path) -> None:
    wrong: JsonObject = {"status": "error", "error_detail": "no such colour 7"}
    answers = dict.fromkeys(range(2, 5), wrong)
    stage = pilot_stage(tmp_path / "fails", episodes(4, answers), changes={
        "/execution_policy/on_threshold": "continue",
        "/resolution_programme/1": {
            "step_id": "aggregate", "type": "deterministic_computation",
            "input_spec": {"computation": "provenance_chain", "params": {"required": ["x"]}},
            "output_spec": {"required": ["nothing"]},
        },
    })  # fmt: skip
    resolution = stage.run(ScriptedAdapter(answer_as_asked)).resolution
    assert (resolution["outcome"], resolution["outcome_reason"]) == (
        "failed",
        "step-failed:aggregate",
    )
    assert resolution["statuses"] == STATUSES | {"success": 1, "error": 3}
    assert resolution["reasons"] == [{"code": "error", "count": 3, "entry": 4}]
    certified = pilot_stage(tmp_path / "ends", episodes(2)).run(ScriptedAdapter())
    assert "reasons" not in certified.resolution


def test_the_failures_of_several_batches_are_counted_together(tmp_path: Path) -> None:
    wrong: JsonObject = {"status": "error", "error_detail": "no"}
    stage = pilot_stage(tmp_path, episodes(12, dict.fromkeys(range(1, 13), wrong)), changes={
        "/execution_policy/on_threshold": "continue"})  # fmt: skip
    finished = asyncio.run(stage.perform(ScriptedAdapter(answer_as_asked), batch_size=5))
    assert finished.resolution["statuses"] == STATUSES | {"error": 12}
    assert finished.resolution["reasons"] == [{"code": "error", "count": 12, "entry": 4}]
