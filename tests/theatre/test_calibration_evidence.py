"""Stated probabilities, from the construct's answers to the certificate, and checked again."""

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.runs import (
    ERROR,
    LATE,
    REFUSED,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
    pilot_stage,
    with_changes,
)
from theatre.api.certificate_report import page_of_bundle
from theatre.cli.certificate_report import print_certificate
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.pages.certificate_page import render_certificate

LABELLED: dict[str, JsonValue] = {
    "/scoring/criteria_scorers/colour": {
        "scorer": "label_accuracy",
        "params": {"field": "colour", "expected": "colour"},
    },
    "/scorer_pins": {"label_accuracy": "1", "numeric_tolerance": "1"},
}
AGGREGATE, CERTIFICATE = "scores/aggregate.json", "certificate.json"


def stated(seq: int) -> tuple[Fraction | None, bool]:
    """Return what the construct claims of episode `seq`, and whether it is right."""
    probability = None if seq % 40 == 0 else Fraction(50 + seq % 50, 100)
    return probability, seq % 7 != 0


def answer(seq: int) -> JsonObject:
    probability, right = stated(seq)
    output: JsonObject = {"colour": "red" if right else "blue", "recall": 0.5}
    if probability is not None:
        output["confidence"] = float(probability)
    return {"output_data": output}


def run_with(folder: Path, count: int, others: dict[int, JsonObject] | None = None) -> Finished:
    answers = {seq: answer(seq) for seq in range(1, count + 1)} | (others or {})
    stage = pilot_stage(folder, episodes(count, answers), changes=LABELLED)
    return stage.run(ScriptedAdapter(answer_as_asked), batch_size=50)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    failed: dict[int, JsonObject] = {3: ERROR, 5: REFUSED, 6: ERROR | {"output_data": {}}}
    return run_with(tmp_path_factory.mktemp("labelled"), 130, failed)


@pytest.fixture(scope="module")
def files(finished: Finished) -> Files:
    return load(finished.bundle)


def test_the_certificate_says_what_the_probabilities_came_to(finished: Finished) -> None:
    answered = [stated(seq) for seq in range(1, 131) if seq not in {3, 5, 6}]
    used = [(p, right) for p, right in answered if p is not None]
    calibration = cast("dict[str, Any]", finished.document(AGGREGATE)["calibration"])
    counts = [calibration[name] for name in ("criterion", "probabilities", "without_probability")]
    assert counts == ["colour", 124, 3]
    brier = sum(((p - right) ** 2 for p, right in used), Fraction(0)) / len(used)
    error = Fraction(0)
    for low in range(5, 10):
        inside = [(p, right) for p, right in used if low <= p * 10 < low + 1]
        error += abs(sum((p - right for p, right in inside), Fraction(0))) / len(used)
    certificate = finished.document(CERTIFICATE)
    assert (certificate["brier_score"], certificate["ece"]) == (
        round(float(brier), 9),
        round(float(error), 9),
    )
    assert (calibration["brier_score"], calibration["ece"]["value"]) == (
        certificate["brier_score"],
        certificate["ece"],
    )


def test_who_is_silent_where_it_is_unsure_is_shown_to_be(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    print_certificate(finished.bundle)
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "Brier" in one)
    assert line.endswith("; 3 answers stated none")


def test_the_check_recomputes_the_calibration_from_the_recorded_answers(finished: Finished) -> None:
    report = check(finished.bundle)
    assert report.consistent
    assert failed_ids(report) == set()


def test_below_100_probabilities_the_certificate_has_a_brier_score_and_no_ece(
    tmp_path: Path,
) -> None:
    finished = run_with(tmp_path, 60)
    certificate = finished.document(CERTIFICATE)
    assert certificate["brier_score"] is not None
    assert certificate["ece"] is None
    assert check(finished.bundle).consistent


def test_next_to_a_brier_score_stands_of_how_many_answers_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One answer that was right and sure has the best that there is."""
    sure: JsonObject = {"output_data": {"colour": "red", "recall": 1, "confidence": 1}}
    stage = pilot_stage(tmp_path, episodes(30, {4: sure}), changes=LABELLED)
    bundle = stage.run(ScriptedAdapter(answer_as_asked)).bundle
    print_certificate(bundle)
    shown = capsys.readouterr().out
    assert "calibration  Brier 0.000 (n = 1), no ECE (fewer-than-100-probabilities)" in shown
    page = render_certificate(page_of_bundle(bundle, None, record=None, now=LATE))
    assert "Brier score 0.000 (0 is best; n = 1)." in page


def test_without_probabilities_the_certificate_has_neither(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(30), changes=LABELLED)
    finished = stage.run(ScriptedAdapter())
    certificate = finished.document(CERTIFICATE)
    assert (certificate["brier_score"], certificate["ece"]) == (None, None)
    calibration = cast("JsonObject", finished.document(AGGREGATE)["calibration"])
    assert calibration["without_probability"] == 30
    assert check(finished.bundle).consistent


IN_RESULTS = {"aggregate", "results-hash", "certificate-fields"}
GAP = "/holdout_scores/gap/colour/difference"

# fmt: off
FORGERIES: list[tuple[str, str, str, JsonValue, set[str]]] = [
    ("a better Brier score", AGGREGATE, "/calibration/brier_score", 0.01, IN_RESULTS),
    ("a better ECE", AGGREGATE, "/calibration/ece/value", 0, IN_RESULTS),
    ("a softer null value", AGGREGATE, "/calibration/ece/upper_95_if_calibrated", 1, IN_RESULTS),
    ("a fuller bin", AGGREGATE, "/calibration/bins/0/count", 1, IN_RESULTS),
    ("no calibration", AGGREGATE, "/calibration", None, IN_RESULTS),
    ("narrower bounds", AGGREGATE, "/worst_case_bounds/colour/low", 0.8, IN_RESULTS),
    ("no gap", AGGREGATE, GAP, 0, IN_RESULTS),
    ("certified: a better Brier score", CERTIFICATE, "/brier_score", 0.01, {"certificate-fields"}),
    ("certified: no Brier score", CERTIFICATE, "/brier_score", None, {"certificate-fields"}),
    ("certified: a better ECE", CERTIFICATE, "/ece", 0.01, {"certificate-fields"}),
    ("certified: no gap", CERTIFICATE, GAP, 0, {"certificate-fields"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("path", "pointer", "value", "caught_by"),
    [pytest.param(*forgery, id=name) for name, *forgery in FORGERIES],
)
def test_a_forged_statistic_is_named_even_where_every_sum_was_made_anew(
    files: Files, tmp_path: Path, path: str, pointer: str, value: JsonValue, caught_by: set[str]
) -> None:
    changed = with_document(files, path, with_changes(document(files, path), {pointer: value}))
    forged = resealed(changed, Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == caught_by


def test_another_confidence_in_a_record_is_named(files: Files, tmp_path: Path) -> None:
    record = "invocations/episode_000007.json"
    pointer = "/calls/0/attempts/0/response/output_data/confidence"
    changed = with_document(files, record, with_changes(document(files, record), {pointer: 0.123}))
    report = check(store(resealed(changed, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    assert {"audit-episodes", "aggregate"} <= failed_ids(report)
