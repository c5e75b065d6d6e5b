"""The independent check runs computations anew: what they are given, and when there are none."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    lines,
    load,
    resealed,
    store,
)
from tests.theatre.record_edits import Record
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.models import Computation


@pytest.fixture(scope="module")
def files(every_feature: Path) -> Files:
    return load(every_feature)


def capturing(into: list[bytes]) -> Computation:
    """Return a computation under the recorded name and version that keeps what it is given."""

    def compute(given: Iterable[bytes], _: JsonObject) -> JsonObject:
        into.extend(given)
        return {}

    return replace(COMPUTATIONS["provenance_chain"], compute=compute)


def computed_with(folder: Path, computation: Computation | None) -> CheckReport:
    return check(
        folder, computations={} if computation is None else {computation.name: computation}
    )


def test_a_computation_is_given_the_lines_of_its_dataset_and_of_the_episodes_that_were_run(
    files: Files, tmp_path: Path
) -> None:
    given: list[bytes] = []
    report = computed_with(store(files, tmp_path / "bundle"), capturing(given))
    # It says nothing of an intact log.
    assert failed_ids(report) == {"resolution", "tier"}
    log, *told = given
    assert log + b"\n" == files["ground_truth/log.jsonl"]
    gold = lines(files, "ground_truth/gold_labels.jsonl")
    labels = {label["episode_id"]: label["label"] for label in gold}
    outcomes = {line["seq"]: line["outcome"] for line in lines(files, "scores/per_episode.jsonl")}
    records = [document(files, f"invocations/episode_{seq:06d}.json") for seq in range(1, 11)]
    assert told == [
        canonical_bytes(
            {
                "episode_id": episode["episode_id"],
                "input_data": episode["input_data"],
                "expected_output": episode["expected_output"],
                "label": labels.get(episode["episode_id"]),
                "outcome": outcomes[record["seq"]],
                "hops": hops_of(cast("Any", record)),
            }
        )
        for episode, record in zip(
            lines(files, "ground_truth/dataset.jsonl"), records, strict=False
        )
    ]


def hops_of(record: Record) -> JsonObject:
    """Return construct → output of the calls of the first round that succeeded."""
    first = [call for call in record["calls"] if call["repeat"] == 0]
    responses = {call["construct_id"]: call["attempts"][-1]["response"] for call in first}
    return {
        construct: response["output_data"]
        for construct, response in responses.items()
        if response["status"] == "success"
    }


@pytest.mark.parametrize("version", [None, "2"])
def test_a_computation_that_is_not_the_recorded_one_is_unavailable_and_nothing_fails(
    files: Files, tmp_path: Path, version: str | None
) -> None:
    shipped = COMPUTATIONS["provenance_chain"]
    at_hand = None if version is None else replace(shipped, version=version)
    report = computed_with(store(files, tmp_path / "bundle"), at_hand)
    assert report.failed == ()
    told = {line.id: line.actual for line in report.unavailable}
    installed = "none" if at_hand is None else "provenance_chain@2"
    assert told == {
        "resolution": f"computation provenance_chain@1 is recorded and {installed} installed"
    }


def test_a_count_that_is_wrong_shows_beside_a_computation_that_is_missing(
    files: Files, tmp_path: Path
) -> None:
    def count_more(resolution: Record) -> None:
        resolution["steps"][0]["result"]["episodes_recorded"] += 1

    wrong = resealed(changed(files, "resolution.json", count_more), Effort.CERTIFIED_HASH)
    report = computed_with(store(wrong, tmp_path / "bundle"), None)
    assert failed_ids(report) == {"resolution"}


def raising(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    raise ZeroDivisionError


def no_object(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    return cast("JsonObject", [])


def no_json(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    return {"mean": float("nan")}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compute": raising}, "computation-raised"),
        ({"compute": no_object}, "output-not-json"),
        ({"compute": no_json}, "output-not-json"),
    ],
)
def test_a_computation_that_misbehaves_fails_the_step_and_what_rests_on_it(
    files: Files, tmp_path: Path, changes: Mapping[str, Any], reason: str
) -> None:
    misbehaving = replace(COMPUTATIONS["provenance_chain"], **changes)
    report = computed_with(store(files, tmp_path / "bundle"), misbehaving)
    told = {line.id: line.expected for line in report.failed}
    assert told.keys() == {"resolution", "tier"}
    assert told["resolution"] == f"no bundle of a programme that fails: provenance ({reason})"
    assert told["tier"].endswith('"step-failed:provenance"')


def test_params_that_a_computation_does_not_take_leave_it_uncomputed(
    files: Files, tmp_path: Path
) -> None:
    strict: JsonValue = {"type": "object", "maxProperties": 0}
    narrow = replace(COMPUTATIONS["provenance_chain"], params_schema=cast("JsonObject", strict))
    report = computed_with(store(files, tmp_path / "bundle"), narrow)
    told = {line.id: line.actual for line in report.failed}
    assert told.keys() == {"resolution"}
    assert told["resolution"].startswith("not computed because params of provenance_chain")


def test_episodes_that_cannot_be_scored_leave_what_is_computed_over_them_unavailable(
    files: Files, tmp_path: Path
) -> None:
    report = check(store(files, tmp_path / "bundle"), scorers={})
    assert report.failed == ()
    unavailable = {line.id for line in report.unavailable}
    assert unavailable == {
        *("scorers", "scores", "aggregate", "data-audit", "baselines", "resolution")
    }
