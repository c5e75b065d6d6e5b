"""What people say of answers that the coin drew corrects the score that a judge gave (PPI++)."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.pages.test_verify_js import failed
from tests.theatre.pages.verify_page import ask, of_bundle
from tests.theatre.rated_runs import AGGREGATE, details, rate, rated_stage, rating, rubric_step
from tests.theatre.runs import (
    ERROR,
    LATE,
    WRONG,
    RunOptions,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
)
from theatre.engine.bundle_check import measures
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.models.scorers import replay_judgement
from theatre.engine.replay import RunContext
from theatre.engine.scoring.corrections import LabelledItems, labelled_score, powered_rate
from theatre.scorers import load_scorers


def judgement(case: ScoringCase) -> Generator[JsonObject, JsonObject, float]:
    """Ask once whether a colour is red."""
    said = yield {"colour": case.answer}
    return float(said["red"] is True)


class Judge:
    """Sees red, in no other way than a program does."""

    async def ask(self, request: JsonObject) -> JsonObject:
        return {"red": request["colour"] == "red"}


SCORERS = {
    **load_scorers(),
    "told": Scorer(
        name="told",
        version="1",
        kind=ScorerKind.JUDGED,
        params_schema={"type": "object"},
        score=lambda case: replay_judgement(judgement(case), case.exchanges),
        judgement=judgement,
    ),
}
COUNT, DRAWN = 120, 100
FAILED = 4
PEOPLE = ("Grace", "Edsger")


def blind(number: int) -> bool:
    """Say of which answers the judge does not see that they are wrong."""
    return number % 5 == 0


def finished(folder: Path) -> Files:
    """Return a run whose judge calls 9 of 10 answers right, and people 7 of 10."""
    answers = dict.fromkeys(range(10, COUNT + 1, 10), WRONG)
    answers |= dict.fromkeys(range(COUNT + 1, COUNT + FAILED + 1), ERROR)
    plain = {key: value for key, value in rating(items=DRAWN).items() if key != "share"}
    judged: JsonObject = {"scorer": "told", "params": {"field": "colour"}}
    stage = rated_stage(
        folder,
        episodes(COUNT + FAILED, answers),
        steps=[rubric_step(), AGGREGATE],
        ratings=[plain],
        changes={
            "/scoring/criteria_scorers/colour": judged,
            "/scorer_pins": {"told": "1", "numeric_tolerance": "1"},
        },
    )

    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, judge=Judge())

    options = cast("RunOptions", {"scorers": SCORERS, "around": around})
    waiting = stage.run(ScriptedAdapter(answer_as_asked), **options)
    (opened,) = details(waiting.trail, "hitl_opened")
    items = cast("list[str]", opened["items"])
    for person in PEOPLE:
        said = {one: 1 if blind(int(one.split("-")[1])) else 5 for one in items}
        rate(stage, person, {one: said[one] for one in items})
    ended = stage.run(ScriptedAdapter(answer_as_asked), **options)
    return load(ended.bundle)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return finished(tmp_path_factory.mktemp("labelled"))


def failing(bundle: Path) -> tuple[set[str], set[str]]:
    """Return the failing lines of the check, and of `verify_bundle.py`."""
    report = check(bundle, scorers=SCORERS)
    alone = verify(bundle, now=LATE).problems
    return {one.id for one in report.failed}, {name for name, found in alone.items() if found}


def test_labels_that_the_coin_drew_correct_the_score_of_a_judge(
    labelled: Files, tmp_path: Path
) -> None:
    certificate = document(labelled, "certificate.json")
    corrected: Any = certificate["corrected_scores"]
    found = corrected["colour"]
    part = COUNT / (COUNT + FAILED)
    assert found["raw"] == pytest.approx(0.9 * part)
    assert found | dict.fromkeys(("raw", "value", "low", "high")) == {
        "raw": None, "n": COUNT, "errors_from": "people", "controls": None, "value": None,
        "low": None, "high": None, "method": "ppi_wilson", "level": 0.95, "reason": None,
        "labels": {"step_id": "taste", "items": DRAWN, "scorers": 2},
    }  # fmt: skip
    # Four of five answers please people; the judge sees half of the others.
    assert found["low"] < 0.8 * part < found["high"] < found["raw"]
    assert found["value"] == pytest.approx(0.8 * part, abs=0.04)
    bundle = store(labelled, tmp_path / "bundle")
    assert failing(bundle) == (set(), set())
    (answer,) = ask([of_bundle(bundle)])
    assert failed(answer) == []
    assert "qualifications" in answer["value"]["unchecked"]


@pytest.mark.parametrize(
    "edit",
    [lambda one: one.update(value=0.9, low=0.85), lambda one: one["labels"].update(scorers=20)],
)
def test_a_corrected_score_that_people_did_not_give_is_found(
    labelled: Files,
    tmp_path: Path,
    edit: Any,  # noqa: ANN401 - edits a document
) -> None:
    certificate: Any = document(labelled, "certificate.json")
    edit(certificate["corrected_scores"]["colour"])
    forged = resealed(
        with_document(labelled, "certificate.json", certificate), Effort.CERTIFIED_HASH
    )
    check, alone = failing(store(forged, tmp_path / "forged"))
    assert check & {"certificate-fields"}
    assert alone & {"certificate-fields"}


AGGREGATED: JsonObject = {
    "scores": {"one": 0.5},
    "score_counts": {"one": {"scored": 150, "missing": 10}},
}


def both(
    labels: Sequence[float], judged: Sequence[float], others: Sequence[float], *, clustered: bool
) -> tuple[Any, Any]:
    """Return the corrected score by the engine, and by the check."""
    engine = labelled_score(
        AGGREGATED,
        "one",
        LabelledItems(
            step_id="taste", scorers=1, labels=labels, judged=judged, others=others,
            clustered=clustered,
        ),
    )  # fmt: skip
    pairs = [*zip(labels, judged, strict=True)]
    check = measures.Labelled("taste", 1, pairs, others, clustered).corrected(AGGREGATED, "one")
    return engine, measures.near_corrected({"one": check}, {"one": engine})["one"]


def test_run_and_check_compute_the_same_by_their_own_code() -> None:
    rng = np.random.default_rng(22)
    for case in range(60):
        rates = rng.random(4)
        count = int(rng.integers(100, 160))
        labels = rng.random(count) < rates[0]
        judged = np.where(labels, rng.random(count) < rates[1], rng.random(count) < rates[2])
        graded = judged * (1 if case % 2 else rng.random(count))
        others = rng.random(int(rng.integers(1, 300))) < rates[3]
        engine, check = both(
            labels.astype(float).tolist(), graded.tolist(), others.astype(float).tolist(),
            clustered=False,
        )  # fmt: skip
        assert engine == check
        assert engine["value"] is not None


@pytest.mark.parametrize(
    ("labels", "others", "clustered", "reason"),
    [
        (99, 40, False, "fewer than 100 labelled items"),
        (0, 40, False, "fewer than 100 labelled items"),
        (100, 0, False, "no items without a label"),
        (100, 40, True, "its episodes share clusters"),
    ],
)
def test_too_few_labels_and_clusters_correct_nothing(
    labels: int,
    others: int,
    clustered: bool,  # noqa: FBT001 - a case
    reason: str,
) -> None:
    engine, check = both([1.0] * labels, [1.0] * labels, [0.0] * others, clustered=clustered)
    assert (engine["value"], engine["reason"]) == (None, reason)
    assert engine == check
    assert engine["errors_from"] == "people"


def test_labels_alone_are_left_of_a_judge_that_knows_nothing() -> None:
    labels = [1.0, 0.0] * 50
    found = powered_rate(labels, [1.0] * 100, [1.0] * 40)
    assert found["value"] == 0.5
