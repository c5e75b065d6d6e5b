"""What an answer counts as: the outcomes table of the scoring contract, row by row."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

import pytest

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import PinMismatchError, UnknownScorerError
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    GroundTruthEpisode,
    InvocationStatus,
    Scored,
    Scorer,
    ScorerKind,
    ScoringCase,
    Verdict,
)
from theatre.engine.scoring import CriterionPlan, EpisodeAnswer, TheatreScoringProvider
from theatre.scorers import load_scorers

ONE, HALF, ZERO = Scored(1_000_000_000), Scored(500_000_000), Scored(0)
FAILED = [InvocationStatus.TIMEOUT, InvocationStatus.ERROR]
EPISODE = GroundTruthEpisode(
    seq=1,
    episode_id="e1",
    input_data={"asked": "colour"},
    expected_output={"colour": "red", "nothing": None, "cells": [{"q": 3}]},
)


def template(chosen: Mapping[str, JsonObject], **changes: JsonValue) -> JsonObject:
    return {
        "criteria": {"criteria_ids": list(chosen)},
        "scoring": {"criteria_scorers": dict(chosen)},
        **changes,
    }


def criterion(scorer: str, **params: JsonValue) -> JsonObject:
    return {"scorer": scorer, "params": params}


def scorer_named(
    name: str, score: Callable[[ScoringCase], Any], *, needs_expectation: bool = True
) -> Scorer:
    return Scorer(
        name=name,
        version="1",
        kind=ScorerKind.EXACT,
        params_schema={},
        score=score,
        needs_expectation=needs_expectation,
    )


class Watcher:
    """Scores everything alike and keeps what it was shown."""

    def __init__(self, number: float = 1.0, *, needs_expectation: bool = True) -> None:
        self.seen: list[ScoringCase] = []
        self._number = number
        self.scorers = {
            "watch": scorer_named("watch", self._score, needs_expectation=needs_expectation)
        }

    def _score(self, case: ScoringCase) -> float:
        self.seen.append(case)
        return self._number


def provider(
    criteria: Mapping[str, JsonObject], scorers: Mapping[str, Scorer] | None = None
) -> TheatreScoringProvider:
    return TheatreScoringProvider(
        template(criteria), load_scorers() if scorers is None else scorers
    )


def success(output: JsonObject) -> EpisodeAnswer:
    return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops={"pilot": output})


def ended(status: InvocationStatus) -> EpisodeAnswer:
    return EpisodeAnswer(status=status, hops={})


def score(
    one_criterion: JsonObject,
    answer: EpisodeAnswer,
    *,
    episode: GroundTruthEpisode = EPISODE,
    gold: JsonObject | None = None,
    scorers: Mapping[str, Scorer] | None = None,
) -> tuple[EpisodeOutcome, CriterionResult]:
    scores = provider({"c": one_criterion}, scorers).score_episode(episode, answer, gold)
    assert set(scores.by_criterion) == {"c"}
    return scores.outcome, scores.by_criterion["c"]


COLOUR = criterion("exact_match", field="result", expected="colour")


class Row(NamedTuple):
    answer: EpisodeAnswer
    outcome: EpisodeOutcome
    result: CriterionResult


ROWS = {
    "right": Row(success({"result": "red"}), EpisodeOutcome.SCORED, ONE),
    "wrong": Row(success({"result": "blue"}), EpisodeOutcome.SCORED, ZERO),
    "wrong type": Row(success({"result": ["red"]}), EpisodeOutcome.SCORED, ZERO),
    "null": Row(success({"result": None}), EpisodeOutcome.SCORED, ZERO),
    "field absent": Row(success({"answer": "red"}), EpisodeOutcome.SCORED, ZERO),
    "empty": Row(success({}), EpisodeOutcome.SCORED, ZERO),
    "timeout": Row(ended(InvocationStatus.TIMEOUT), EpisodeOutcome.MISSING, Verdict.MISSING),
    "error": Row(ended(InvocationStatus.ERROR), EpisodeOutcome.MISSING, Verdict.MISSING),
    "refused": Row(ended(InvocationStatus.REFUSED), EpisodeOutcome.EXCLUDED, Verdict.EXCLUDED),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_answer_counts_as_the_contract_says(name: str) -> None:
    row = ROWS[name]
    assert score(COLOUR, row.answer) == (row.outcome, row.result)


def raising(_: ScoringCase) -> float:
    raise RuntimeError("the plug-in has a bug")


FAULTS: dict[str, Callable[[ScoringCase], Any]] = {
    "raises": raising,
    "NaN": lambda _: math.nan,
    "2.0": lambda _: 2.0,
    "negative": lambda _: -0.1,
    "infinite": lambda _: math.inf,
    "a huge integer": lambda _: 10**400,
    "a truth value": lambda _: True,
    "text": lambda _: "1",
    "a list": lambda _: [1.0],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_scorer_at_fault_leaves_the_criterion_unscored(fault: str) -> None:
    scorers = {"odd": scorer_named("odd", FAULTS[fault])}
    seen = score(criterion("odd"), success({"result": "red"}), scorers=scorers)
    assert seen == (EpisodeOutcome.UNSCORED, Verdict.UNSCORED)


def test_an_answer_that_a_criterion_is_undefined_for_is_declined() -> None:
    scorers = {"precision": scorer_named("precision", lambda _: None)}
    seen = score(criterion("precision"), success({"claims": []}), scorers=scorers)
    assert seen == (EpisodeOutcome.UNSCORED, Verdict.DECLINED)


def test_one_score_makes_an_episode_scored_and_the_other_gaps_stay_gaps() -> None:
    scorers = {
        "half": scorer_named("half", lambda _: 0.5),
        "odd": scorer_named("odd", raising),
        "shy": scorer_named("shy", lambda _: None),
    }
    criteria = {
        "measured": criterion("half"),
        "broken": criterion("odd"),
        "declined": criterion("shy"),
        "elsewhere": criterion("half", expected="no_such_member"),
    }
    scores = provider(criteria, scorers).score_episode(EPISODE, success({"result": "red"}))
    assert scores.outcome is EpisodeOutcome.SCORED
    assert scores.by_criterion == {
        "measured": HALF,
        "broken": Verdict.UNSCORED,
        "declined": Verdict.DECLINED,
        "elsewhere": Verdict.NOT_APPLICABLE,
    }


@pytest.mark.parametrize("status", InvocationStatus)
def test_a_criterion_without_an_expectation_applies_however_the_call_ended(
    status: InvocationStatus,
) -> None:
    missing_member = criterion("exact_match", field="result", expected="absent.member")
    answer = EpisodeAnswer(
        status=status,
        hops={"pilot": {"result": "red"}} if status is InvocationStatus.SUCCESS else {},
    )
    _, result = score(missing_member, answer)
    assert result is Verdict.NOT_APPLICABLE
    bare = replace(EPISODE, expected_output=None)
    for one in (COLOUR, criterion("exact_match"), criterion("exact_match", field="result")):
        _, result = score(one, answer, episode=bare)
        assert result is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize("status", FAILED)
def test_a_failed_episode_counts_against_exactly_the_criteria_that_apply(
    status: InvocationStatus,
) -> None:
    criteria = {
        "colour": COLOUR,
        "shape": criterion("exact_match", field="result", expected="shape"),
        "labelled": criterion("exact_match", field="result", expected="gold:colour"),
    }
    both = provider(criteria).score_episode(EPISODE, ended(status), {"colour": "red"})
    assert both.outcome is EpisodeOutcome.MISSING
    assert both.by_criterion == {
        "colour": Verdict.MISSING,
        "shape": Verdict.NOT_APPLICABLE,
        "labelled": Verdict.MISSING,
    }


def test_an_episode_that_no_criterion_applies_to_is_unscored_not_scored() -> None:
    elsewhere = criterion("exact_match", field="result", expected="absent")
    seen = score(elsewhere, success({"result": "red"}))
    assert seen == (EpisodeOutcome.UNSCORED, Verdict.NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("answer", "result"),
    [({"result": None}, ONE), ({"result": 0}, ZERO), ({"result": {}}, ZERO), ({}, ZERO)],
)
def test_null_is_an_expectation_and_an_absent_field_is_not_null(
    answer: JsonObject, result: CriterionResult
) -> None:
    nothing = criterion("exact_match", field="result", expected="nothing")
    assert score(nothing, success(answer)) == (EpisodeOutcome.SCORED, result)


@pytest.mark.parametrize(
    ("gold", "result"),
    [
        ({"colour": {"name": "blue"}}, ONE),
        ({"colour": {"name": "red"}}, ZERO),
        ({"colour": {"name": None}}, ZERO),
        ({"colour": {}}, Verdict.NOT_APPLICABLE),
        ({"colour": "blue"}, Verdict.NOT_APPLICABLE),
        (None, Verdict.NOT_APPLICABLE),
    ],
)
def test_a_gold_criterion_is_held_against_the_label_alone(
    gold: JsonObject | None, result: CriterionResult
) -> None:
    labelled = criterion("exact_match", field="result", expected="gold:colour.name")
    for episode in (EPISODE, replace(EPISODE, expected_output=None)):
        assert score(labelled, success({"result": "blue"}), episode=episode, gold=gold)[1] == result


def test_gold_without_a_path_is_the_whole_label() -> None:
    whole = criterion("exact_match", expected="gold:")
    label: JsonObject = {"canvas": "pricing", "signal": "HIGH"}
    assert score(whole, success(label), gold=label)[1] == ONE
    assert score(whole, success({"canvas": "pricing"}), gold=label)[1] == ZERO
    assert score(whole, success(label))[1] is Verdict.NOT_APPLICABLE


def test_without_paths_the_whole_objects_are_compared() -> None:
    whole = criterion("exact_match")
    expected = cast("JsonObject", EPISODE.expected_output)
    assert score(whole, success(expected))[1] == ONE
    assert score(whole, success(expected | {"more": 1}))[1] == ZERO
    inside = criterion("exact_match", expected="cells.0")
    assert score(inside, success({"q": 3}))[1] == ONE
    assert score(inside, success({"q": 4}))[1] == ZERO


CHAIN = EpisodeAnswer(
    status=InvocationStatus.SUCCESS,
    hops={"easel": {"out": {"colour": "red"}}, "mint": {"out": {"colour": "blue"}}},
)


@pytest.mark.parametrize(
    ("field", "result"),
    [
        ("easel:out.colour", ONE),
        ("mint:out.colour", ZERO),
        ("out.colour", ZERO),
        ("easel:out.absent", ZERO),
        ("artisan:out.colour", ZERO),
    ],
)
def test_a_field_points_into_the_last_hop_or_the_one_it_names(
    field: str, result: CriterionResult
) -> None:
    one = criterion("exact_match", field=field, expected="colour")
    assert score(one, CHAIN) == (EpisodeOutcome.SCORED, result)


def test_a_success_without_any_output_scores_zero() -> None:
    nothing = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops={})
    assert score(COLOUR, nothing) == (EpisodeOutcome.SCORED, ZERO)
    assert score(criterion("exact_match"), nothing) == (EpisodeOutcome.SCORED, ZERO)


def test_a_scorer_sees_the_resolved_values_its_params_and_every_hop() -> None:
    watcher = Watcher(0.5)
    one = criterion("watch", field="easel:out", expected="cells.0.q", abs=0.5)
    assert score(one, CHAIN, scorers=watcher.scorers) == (EpisodeOutcome.SCORED, HALF)
    assert watcher.seen == [
        ScoringCase(
            input_data={"asked": "colour"},
            expected=3,
            answer={"colour": "red"},
            params={"field": "easel:out", "expected": "cells.0.q", "abs": 0.5},
            hops=CHAIN.hops,
        )
    ]


@pytest.mark.parametrize(
    "answer",
    [
        success({"other": 1}),
        EpisodeAnswer(status=InvocationStatus.SUCCESS, hops={}),
        *(ended(status) for status in (*FAILED, InvocationStatus.REFUSED)),
    ],
    ids=["absent field", "no output", "timeout", "error", "refused"],
)
def test_a_scorer_is_not_asked_where_there_is_nothing_to_score(answer: EpisodeAnswer) -> None:
    watcher = Watcher()
    one = criterion("watch", field="result", expected="colour")
    score(one, answer, scorers=watcher.scorers)
    assert watcher.seen == []


def test_a_scorer_without_expectations_applies_everywhere_unless_it_names_one() -> None:
    watcher = Watcher(needs_expectation=False)
    bare = replace(EPISODE, expected_output=None)
    for episode in (bare, EPISODE):
        assert score(criterion("watch"), success({}), episode=episode, scorers=watcher.scorers) == (
            EpisodeOutcome.SCORED,
            ONE,
        )
    assert [case.expected for case in watcher.seen] == [None, EPISODE.expected_output]
    named = criterion("watch", expected="absent")
    assert score(named, success({}), scorers=watcher.scorers)[1] is Verdict.NOT_APPLICABLE


def test_the_plan_holds_the_criteria_in_committed_order_with_exact_weights() -> None:
    scorers = load_scorers()
    document = template(
        {"zeta": COLOUR, "alpha": criterion("set_f1", field="tags")},
        criteria={"criteria_ids": ["zeta", "alpha"], "weights": {"alpha": 0.3, "zeta": 0.7}},
        scorer_pins={"exact_match": "1"},
    )
    seen = TheatreScoringProvider(document, scorers)
    assert seen.criteria == (
        CriterionPlan(
            criterion_id="zeta",
            scorer=scorers["exact_match"],
            params={"field": "result", "expected": "colour"},
            weight=Fraction(7, 10),
        ),
        CriterionPlan(
            criterion_id="alpha",
            scorer=scorers["set_f1"],
            params={"field": "tags"},
            weight=Fraction(3, 10),
        ),
    )
    assert seen.criterion_ids == ("zeta", "alpha")
    assert seen.scorer_pins == {"exact_match": "1", "set_f1": "1"}


@pytest.mark.parametrize("weights", [None, {}])
def test_without_weights_all_criteria_weigh_the_same(weights: JsonObject | None) -> None:
    given: JsonObject = {} if weights is None else {"weights": weights}
    document = template(
        {"a": COLOUR, "b": COLOUR, "c": {"scorer": "exact_match"}},
        criteria={"criteria_ids": ["a", "b", "c"], **given},
    )
    plans = TheatreScoringProvider(document, load_scorers()).criteria
    assert [plan.weight for plan in plans] == [Fraction(1, 3)] * 3
    assert plans[2].params == {}


@pytest.mark.parametrize(
    ("scoring", "split"),
    [({}, Fraction(1, 5)), ({"holdout_split": 0.1}, Fraction(1, 10)), ({"holdout_split": 0}, 0)],
)
def test_the_holdout_share_is_the_committed_decimal_or_a_fifth(
    scoring: JsonObject, split: Fraction
) -> None:
    document = template({"a": COLOUR}, scoring={"criteria_scorers": {"a": COLOUR}, **scoring})
    assert TheatreScoringProvider(document, load_scorers()).holdout_split == split


def test_a_scorer_that_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(UnknownScorerError) as caught:
        provider({"c": criterion("mind_reader")}, {"b": load_scorers()["set_f1"]})
    assert str(caught.value) == "expected scorer mind_reader to be installed; there are: b"
    with pytest.raises(UnknownScorerError, match=r"there are: none$"):
        provider({"c": criterion("mind_reader")}, {})


def test_a_scorer_in_another_version_than_the_pinned_one_is_refused() -> None:
    with pytest.raises(PinMismatchError) as caught:
        TheatreScoringProvider(
            template({"c": COLOUR}, scorer_pins={"exact_match": "0.9"}), load_scorers()
        )
    assert str(caught.value) == (
        "expected scorer exact_match in version 0.9 (pinned), got 1 (installed)"
    )
