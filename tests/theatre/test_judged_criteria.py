"""Criteria that a judge is asked about: asked once, recorded, and played again by the check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import COMPUTATIONS, REGISTRY, SANITISER, SCORERS, load, store
from tests.theatre.record_edits import Edit, forged, of_record
from tests.theatre.runs import (
    ERROR,
    LATE,
    REFUSED,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ProgrammeError, TheatreError
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase, replay_judgement
from theatre.engine.replay import RunContext

ANSWERS: dict[int, JsonObject] = {
    2: {"output_data": {"colour": "blue", "recall": 0.9}},
    3: {**ERROR},
    4: {**REFUSED},
    5: {"output_data": {"recall": 0.5}},
    6: {"output_data": {"colour": None, "recall": 0.5}},
}


def judgement(case: ScoringCase) -> Judgement:
    """Ask whether it is right, and then how sure that is; nothing where there is no colour."""
    if case.answer is None:
        return None
    first = yield {"is_right": case.answer, "expected": case.expected}
    second = yield {"how_sure": first["said"]}
    # A scorer may spoil what it is shown: the record does not change by that.
    first["said"] = "spoilt"
    sure = second["said"]
    return float(sure) if isinstance(sure, int | float) else float("nan")


def score(case: ScoringCase) -> float | None:
    return replay_judgement(judgement(case), case.exchanges)


TOLD = Scorer(
    name="told",
    version="1",
    kind=ScorerKind.JUDGED,
    params_schema={"type": "object"},
    score=score,
    judgement=judgement,
)
CHANGES: dict[str, JsonValue] = {
    "/scoring/criteria_scorers/colour/scorer": "told",
    "/scorer_pins": {"told": "1", "numeric_tolerance": "1"},
    "/execution_policy/on_threshold": "continue",
}


class LostError(TheatreError):
    """Nobody can be asked any more."""

    code = "lost"


class RuledJudge:
    """Says whether two values are the same, and how sure that is; `lost_at` ends it."""

    def __init__(self, *, lost_at: int | None = None) -> None:
        self.asked: list[JsonObject] = []
        self._lost_at = lost_at

    async def ask(self, request: JsonObject) -> JsonObject:
        if len(self.asked) == self._lost_at:
            raise LostError("expected a judge, got none")
        self.asked.append(request)
        if "is_right" in request:
            return {"said": request["is_right"] == request["expected"]}
        return {"said": 1 if request["how_sure"] else 0.25}


def run_with(stage: Stage, judge: RuledJudge | None) -> Finished:
    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, judge=judge)

    scorers = {**SCORERS, "told": TOLD}
    return stage.run(ScriptedAdapter(answer_as_asked), around=around, scorers=scorers, batch_size=1)


def checked(bundle: Path, *scorers: Scorer) -> CheckReport:
    return check_bundle(
        bundle,
        {**SCORERS, **{scorer.name: scorer for scorer in scorers}},
        registry=REGISTRY,
        computations=COMPUTATIONS,
        sanitiser=SANITISER,
        now=LATE,
    )


def failed(report: CheckReport) -> set[str]:
    return {line.id for line in report.checks if line.status.value == "fail"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("judged")
    return run_with(pilot_stage(folder, episodes(6, ANSWERS), changes=CHANGES), RuledJudge())


def test_what_is_asked_second_may_depend_on_what_was_answered_first(run: Finished) -> None:
    assert run.record(2)["judgements"] == {
        "colour": [
            {
                "request": {"is_right": "blue", "expected": "red"},
                "answer": {"said": False},
            },
            {"request": {"how_sure": False}, "answer": {"said": 0.25}},
        ]
    }


def test_scores_follow_from_the_answers_and_gaps_stay_gaps(run: Finished) -> None:
    lines: list[Any] = run.lines("scores/per_episode.jsonl")
    # Right, wrong, failed, refused, without the field, and undefined for that answer.
    assert [line["scores"]["colour"] for line in lines] == [1, 0.25, 0, None, 0, None]


@pytest.mark.parametrize(("seq", "asked"), [(3, {}), (4, {}), (5, {}), (6, {"colour": []})])
def test_a_judge_is_not_asked_about_what_is_not_there(
    run: Finished, seq: int, asked: JsonObject
) -> None:
    assert run.record(seq)["judgements"] == asked


def test_the_check_asks_all_of_it_again(run: Finished) -> None:
    report = checked(run.bundle, TOLD)
    assert (failed(report), report.unavailable) == (set(), ())


@pytest.mark.parametrize(
    ("seq", "edit", "found"),
    [
        (1, of_record("judgements", "colour", 1, "answer", "said", to=0.5), "scores"),
        (1, of_record("judgements", "colour", 0, "answer", "said", to=False), "invocations"),
        (1, of_record("judgements", "colour", 0, "request", "is_right", to="x"), "invocations"),
        (1, of_record("judgements", "colour", 0, to=None), "invocations"),
        (1, of_record("judgements", "colour", 0, to={}), "invocations"),
        (1, of_record("judgements", "colour", to=None), "invocations"),
        (1, of_record("judgements", "colour", to=[]), "invocations"),
        (1, of_record("judgements", to=[]), "invocations"),
        (1, of_record("judgements", "recall", to=[]), "invocations"),
        (3, of_record("judgements", "colour", to=[]), "invocations"),
        (1, lambda record: record.pop("judgements"), "invocations"),
        (1, lambda record: record.pop("judge_seed"), "invocations"),
        (1, of_record("judge_seed", to="0" * 64), "invocations"),
        (1, lambda record: record["judgements"]["colour"].pop(), "invocations"),
        (1, lambda record: record["judgements"]["colour"].reverse(), "invocations"),
        (1, lambda record: record["judgements"]["colour"].append("once more"), "invocations"),
    ],
)
def test_whoever_rewrites_an_exchange_is_found_out(
    run: Finished, tmp_path: Path, seq: int, edit: Edit, found: str
) -> None:
    bundle = store(forged(load(run.bundle), seq, edit), tmp_path / "bundle")
    assert found in failed(checked(bundle, TOLD))


def test_without_the_scorer_its_exchanges_are_unavailable_and_not_wrong(run: Finished) -> None:
    report = checked(run.bundle)
    assert "invocations" not in failed(report)
    assert report.unavailable


def test_judgements_of_a_template_without_a_judge_are_refused(tmp_path: Path) -> None:
    plain = pilot_stage(tmp_path / "plain", episodes(2)).run(ScriptedAdapter())
    edit = of_record("judgements", to={})
    bundle = store(forged(load(plain.bundle), 1, edit), tmp_path / "bundle")
    assert "invocations" in failed(checked(bundle, TOLD))


def test_a_judge_that_is_lost_stops_the_run_which_goes_on_where_it_was(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(4), changes=CHANGES)
    with pytest.raises(LostError):
        run_with(stage, RuledJudge(lost_at=5))
    assert stage.state == "ACTIVE"
    judge = RuledJudge()
    run = run_with(stage, judge)
    assert len(judge.asked) == 4
    assert failed(checked(run.bundle, TOLD)) == set()
    aggregate: Any = run.document("scores/aggregate.json")
    assert aggregate["score_counts"]["colour"]["scored"] == 4


def test_without_a_judge_nobody_is_called(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes=CHANGES)
    with pytest.raises(ProgrammeError, match="expected a judge"):
        run_with(stage, None)
    assert stage.state == "COMMITTED"
