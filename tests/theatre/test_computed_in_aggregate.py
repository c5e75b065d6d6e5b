"""Outputs of computations that are committed to stand in `scores/aggregate.json`, and forgeries."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.runs import (
    ScriptedAdapter,
    Stage,
    call_step,
    checked,
    episodes,
    pilot_stage,
)
from tests.theatre.test_bundle_check_programme import results_changed
from tests.theatre.trail_edits import with_results
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.models import Computation

AGGREGATE = "scores/aggregate.json"
ONE: JsonObject = {
    "step_id": "filled",
    "type": "deterministic_computation",
    "input_spec": {"computation": "provenance_chain", "params": {"required": ["outcome"]}},
}
END: JsonObject = {"step_id": "sum_up", "type": "aggregation"}


def staged(folder: Path, *, in_aggregate: bool | None, aggregates: bool = True) -> Stage:
    """Return a theatre of three episodes with one computation over them."""
    step = ONE | {"input_spec": dict(ONE["input_spec"])}  # type: ignore[arg-type]  # an object
    if in_aggregate is not None:
        step["input_spec"]["in_aggregate"] = in_aggregate  # type: ignore[index, call-overload]  # an object
    programme: list[JsonValue] = [call_step(), step, *([END] if aggregates else [])]
    return pilot_stage(folder, episodes(3), changes={"/resolution_programme": programme})


@pytest.mark.parametrize("aggregates", [True, False])
def test_an_output_stands_in_the_aggregate_and_under_its_hash(
    tmp_path: Path, *, aggregates: bool
) -> None:
    finished = staged(tmp_path, in_aggregate=True, aggregates=aggregates).run(ScriptedAdapter())
    steps: list[Any] = finished.steps()
    aggregate = finished.document(AGGREGATE)
    assert aggregate["computed"] == {"filled": steps[1]["result"]["output"]}
    hashed = {k: v for k, v in aggregate.items() if k not in {"results_hash", "score_intervals"}}
    lines = (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
    results_hash = hashlib.sha256(lines + canonical_bytes(hashed)).hexdigest()
    assert {aggregate["results_hash"], finished.document("certificate.json")["results_hash"]} == {
        results_hash
    }
    assert checked(finished.bundle).consistent


@pytest.mark.parametrize("committed", [None, False])
def test_without_the_commitment_the_aggregate_has_no_such_member(
    tmp_path: Path, *, committed: bool | None
) -> None:
    finished = staged(tmp_path, in_aggregate=committed).run(ScriptedAdapter())
    aggregate = finished.document(AGGREGATE)
    assert "computed" not in aggregate
    # As it was before there was such a member: other theatres' results keep their hash.
    assert aggregate["results_hash"] == (
        "d8c0509d0410796a3c9e6042e13e36261cb546d622ded8e2b95d72a8d71c8113"
    )


def test_a_step_that_failed_or_was_skipped_has_null(rated: Files) -> None:
    computed: Any = document(rated, AGGREGATE)["computed"]
    filled = computed.pop("filled")
    assert (computed, filled["records"]) == ({"provenance": None, "never": None}, 14)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    stage = staged(tmp_path_factory.mktemp("computed"), in_aggregate=True)
    return load(stage.run(ScriptedAdapter()).bundle)


@pytest.fixture(scope="module")
def rated(every_rating: Path) -> Files:
    return load(every_rating)


def aggregate_changed(files: Files, edit: Callable[[Any], object]) -> Files:
    """Return the bundle with another aggregate, and everything made anew that follows from it."""
    forged = with_results(changed(files, AGGREGATE, edit))
    return resealed(forged, Effort.CERTIFIED_HASH)


def with_output(value: JsonValue) -> Callable[[Any], object]:
    return lambda aggregate: aggregate["computed"].update(filled=value)


# fmt: off
FORGERIES: list[tuple[str, Callable[[Any], object], str]] = [
    ("another number", lambda a: a["computed"]["filled"].update(records=11), "computed/filled"),
    ("a member less", lambda a: a["computed"]["filled"].pop("records"), "computed/filled"),
    ("a member more", lambda a: a["computed"]["filled"].update(note=1), "computed/filled/note"),
    ("null for an output", with_output(None), "computed/filled"),
    ("a step more", lambda a: a["computed"].update(sum_up={}), "computed/sum_up"),
    ("a step less", lambda a: a["computed"].clear(), "computed/filled"),
    ("under another name", lambda a: a.update(computed={"full": a["computed"]["filled"]}),
     "computed/f"),
    ("no such member", lambda a: a.pop("computed"), "computed"),
]
# fmt: on


@pytest.mark.parametrize(
    ("edit", "place"), [pytest.param(*case[1:], id=case[0]) for case in FORGERIES]
)
def test_a_forged_output_does_not_recompute(
    files: Files, tmp_path: Path, edit: Callable[[Any], object], place: str
) -> None:
    report = check(store(aggregate_changed(files, edit), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert told["aggregate"].startswith(f"aggregate.json/{place}")
    # The forger made every hash anew, so the hash of what was recomputed is another one.
    assert set(told) == {"aggregate", "resolution"}


def test_an_output_that_is_forged_everywhere_does_not_recompute(
    files: Files, tmp_path: Path
) -> None:
    def more(steps: list[Any]) -> None:
        steps[1]["result"]["output"]["records"] = 11

    everywhere = results_changed(files, more)
    forged = aggregate_changed(everywhere, lambda a: a["computed"]["filled"].update(records=11))
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == {"aggregate", "resolution"}


def _update_computed(members: JsonObject, aggregate: Any) -> None:  # noqa: ANN401 - a document
    aggregate["computed"].update(members)


def test_a_null_that_was_filled_in_is_named(rated: Files, tmp_path: Path) -> None:
    for step in ("provenance", "never"):
        filled: JsonObject = {step: {"records": 14}}
        forged = aggregate_changed(rated, partial(_update_computed, filled))
        report = check(store(forged, tmp_path / step))
        assert failed_ids(report) == {"aggregate", "resolution"}


def test_a_member_that_was_never_committed_is_named(tmp_path: Path) -> None:
    plain = load(staged(tmp_path / "run", in_aggregate=None).run(ScriptedAdapter()).bundle)
    forged = aggregate_changed(plain, lambda a: a.update(computed={"filled": {}}))
    report = check(store(forged, tmp_path / "bundle"))
    assert failed_ids(report) == {"aggregate", "resolution"}


def recomputed(folder: Path, computation: Computation) -> CheckReport:
    return check(folder, computations={computation.name: computation})


def test_without_the_recorded_computation_the_aggregate_is_unavailable(
    files: Files, tmp_path: Path
) -> None:
    other = replace(COMPUTATIONS["provenance_chain"], version="2")
    report = recomputed(store(files, tmp_path / "bundle"), other)
    assert report.failed == ()
    assert {line.id for line in report.unavailable} == {"aggregate", "resolution"}


def test_the_check_computes_by_itself(files: Files, tmp_path: Path) -> None:
    other = replace(COMPUTATIONS["provenance_chain"], compute=lambda *_: {"records": 3})
    report = recomputed(store(files, tmp_path / "bundle"), other)
    told = {line.id: line.expected for line in report.failed}
    assert set(told) == {"aggregate", "resolution"}
    assert told["aggregate"].startswith("aggregate.json/computed/filled")
