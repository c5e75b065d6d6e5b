"""The independent check of what a programme came to: computations, and answers behind the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.every_feature import DISCARDED
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    lines,
    load,
    rechained,
    resealed,
    store,
)
from tests.theatre.record_edits import Record, forged_everywhere, records_in, with_all
from tests.theatre.runs import LATE
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue

TRAIL = "audit_trail.jsonl"


@pytest.fixture(scope="module")
def files(every_feature: Path) -> Files:
    return load(every_feature)


def results_changed(files: Files, edit: Callable[[list[Record]], object]) -> Files:
    """Return the bundle in which `edit` changed the steps of resolution and trail alike."""
    resolution: Any = document(files, "resolution.json")
    edit(resolution["steps"])
    entries = lines(files, TRAIL)
    completed = [entry for entry in entries if entry["event_type"] == "step_completed"]
    settled = [step for step in resolution["steps"] if step["type"] != "construct_invocation"]
    for entry, step in zip(completed, settled, strict=True):
        entry["detail"] = step
    told = changed(files, "resolution.json", lambda whole: whole.update(resolution))
    return resealed(rechained(told, entries), Effort.CERTIFIED_HASH)


def activated_with(files: Files, **members: JsonValue) -> Files:
    """Return the bundle in which the entry `activated` says something else."""
    entries = lines(files, TRAIL)
    activated = next(entry for entry in entries if entry["event_type"] == "activated")
    activated["detail"] = cast("JsonObject", activated["detail"]) | members
    return resealed(rechained(files, entries), Effort.CERTIFIED_HASH)


def of_step(index: int, *path: str, to: JsonValue) -> Callable[[list[Record]], object]:
    def edit(steps: list[Record]) -> None:
        place = steps[index]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return edit


# fmt: off
STEPS: list[tuple[str, Callable[[list[Record]], object], str]] = [
    ("another output", of_step(1, "result", "output", "records", to=2), "output/records 1"),
    ("another output over the episodes",
     of_step(2, "result", "output", "faults", "incomplete", to=0), "faults/incomplete"),
    ("another version", of_step(1, "result", "computation", to="provenance_chain@2"),
     "result/computation"),
    ("over another dataset", of_step(1, "result", "over", to="truth"), 'result/over "log"'),
    ("no output", of_step(1, "result", "output", to=None), "result/output"),
    ("a member more", of_step(1, "result", "params", to={}), "result/params"),
    ("the discarded among the recorded", of_step(0, "result", "episodes_recorded", to=12),
     "result/episodes_recorded 10"),
    ("none discarded", of_step(0, "result", "episodes_discarded", to=0),
     "result/episodes_discarded 2"),
    ("another results hash", of_step(3, "result", "results_hash", to="0" * 64), "results_hash"),
    ("steps in another order", lambda steps: steps.reverse(), "/steps/0/result"),
]
# fmt: on


@pytest.mark.parametrize(
    ("edit", "expected"), [pytest.param(*case[1:], id=case[0]) for case in STEPS]
)
def test_a_result_that_does_not_recompute_is_named(
    files: Files, tmp_path: Path, edit: Callable[[list[Record]], object], expected: str
) -> None:
    report = check(store(results_changed(files, edit), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert set(told) == {"resolution"}
    assert expected in told["resolution"]


def test_a_result_that_the_trail_does_not_know_is_named(files: Files, tmp_path: Path) -> None:
    def another(resolution: Record) -> None:
        resolution["steps"][1]["result"]["output"]["records"] = 2

    forged = resealed(changed(files, "resolution.json", another), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == {"resolution"}


# fmt: off
ACTIVATED: list[tuple[dict[str, JsonValue], set[str]]] = [
    ({"computations": {}}, {"audit-chain", "resolution"}),
    ({"computations": {"provenance_chain": "1", "other": "1"}}, {"audit-chain"}),
    ({"computations": {"provenance_chain": 1}}, {"audit-chain", "resolution"}),
    ({"computations": {"provenance_chain": "2"}}, {"resolution"}),
    ({"adapters": {"pilot": "local@1"}}, {"audit-chain", "invocations"}),
    ({"adapters": {"pilot": "local@1", "reader": "http@1", "other": "local@1"}},
     {"audit-chain"}),
    ({"adapters": {"pilot": "local@1", "reader": "local@1"}}, {"audit-chain", "invocations"}),
]
# fmt: on


@pytest.mark.parametrize(("members", "failed"), ACTIVATED)
def test_a_beginning_that_is_not_that_of_the_run_is_named(
    files: Files, tmp_path: Path, members: dict[str, JsonValue], failed: set[str]
) -> None:
    forged = activated_with(files, **members)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == failed


def test_the_adapter_of_a_construct_that_was_never_called_is_a_real_one(
    files: Files, tmp_path: Path
) -> None:
    def declined_at_once(record: Record) -> None:
        first = record["calls"][0]
        first["attempts"][-1]["response"] |= {"status": "refused", "error_detail": "no"}
        record["calls"] = [first]

    unasked = forged_everywhere(files, declined_at_once)
    for adapter in ("mock@1", None, 1):
        forged = activated_with(unasked, adapters={"pilot": adapter, "reader": "http@1"})
        report = check(store(forged, tmp_path / str(adapter)))
        told = {line.id: line.expected for line in report.failed}
        assert told["audit-chain"].startswith("activated with ")


@pytest.mark.parametrize("adapter", ["imported@1", "harness@1", "http@1"])
def test_records_of_another_adapter_than_the_committed_type_are_refused_by_both_checks(
    files: Files, tmp_path: Path, adapter: str
) -> None:
    def recorded_by_another(record: Record) -> None:
        for call in record["calls"]:
            if call["construct_id"] == "pilot":
                call["adapter"] = adapter

    named: JsonObject = {"pilot": adapter, "reader": "http@1"}
    forged = activated_with(forged_everywhere(files, recorded_by_another), adapters=named)
    folder = store(forged, tmp_path / "bundle")
    reported = {line.id: line for line in check(folder).failed}
    assert "adapter of the committed adapter_type local" in reported["invocations"].expected
    assert "audit-chain" in reported
    problems = [one for found in verify(folder, now=LATE).problems.values() for one in found]
    assert "activated/adapters: one that was not committed, or reaches no construct" in problems


def test_a_version_that_is_not_installed_is_unavailable_when_all_name_it(
    files: Files, tmp_path: Path
) -> None:
    def renamed(steps: list[Record]) -> None:
        for step in steps[1:3]:
            step["result"]["computation"] = "provenance_chain@2"

    named = activated_with(results_changed(files, renamed), computations={"provenance_chain": "2"})
    report = check(store(named, tmp_path / "bundle"))
    assert report.failed == ()
    assert [line.id for line in report.unavailable] == ["resolution"]


@pytest.mark.parametrize(
    ("dropped", "failed"),
    [
        (DISCARDED, {"resolution"}),
        (DISCARDED[:1], {"resolution"}),
        (
            (9, *DISCARDED),
            {
                *("invocations", "sanitised-input", "version-pins", "outcomes", "scores"),
                *("aggregate", "data-audit", "baselines", "resolution"),
            },
        ),
    ],
)
def test_discarded_records_are_counted_and_the_others_are_there(
    files: Files, tmp_path: Path, dropped: tuple[int, ...], failed: set[str]
) -> None:
    kept = {seq: record for seq, record in records_in(files).items() if seq not in dropped}
    report = check(store(with_all(files, kept), tmp_path / "bundle"))
    assert failed_ids(report) == failed


def test_a_discarded_record_that_cannot_be_read_is_named_and_the_scores_still_hold(
    files: Files, tmp_path: Path
) -> None:
    name = f"invocations/episode_{DISCARDED[0]:06d}.json"
    forged = resealed(files | {name: b"no record\n"}, Effort.CERTIFIED_HASH)
    failed = failed_ids(check(store(forged, tmp_path / "bundle")))
    assert failed == {"audit-episodes", "invocations", "sanitised-input", "version-pins"}


def test_an_answer_behind_the_end_scores_nothing(files: Files, tmp_path: Path) -> None:
    name = "scores/per_episode.jsonl"
    raw_lines = files[name].splitlines(keepends=True)
    raw_lines[DISCARDED[1] - 1] = raw_lines[DISCARDED[1] - 1].replace(b"not_run", b"scored")
    forged = resealed(files | {name: b"".join(raw_lines)}, Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "bundle"))
    assert failed_ids(report) == {"outcomes", "scores", "results-hash", "certificate-fields"}
