"""Worst-case bounds: what no gap can push a score out of, and what every gap together can reach."""

import itertools
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.scored_runs import NANO, Run, episode, nine_places
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, InvocationStatus, Scored, Verdict

RIGHT, WRONG, HALF = Scored(NANO), Scored(0), Scored(NANO // 2)
STATUS_OF: dict[CriterionResult, InvocationStatus | None] = {
    Verdict.MISSING: InvocationStatus.TIMEOUT,
    Verdict.EXCLUDED: InvocationStatus.REFUSED,
    Verdict.NOT_RUN: None,
}
GAPS = [Verdict.MISSING, Verdict.EXCLUDED, Verdict.DECLINED, Verdict.UNSCORED, Verdict.NOT_RUN]


def bounds(*rows: dict[str, CriterionResult], weights: dict[str, int] | None = None) -> JsonObject:
    episodes = tuple(
        episode(seq, row, status=STATUS_OF.get(next(iter(row.values())), InvocationStatus.SUCCESS))
        for seq, row in enumerate(rows, start=1)
    )
    _, aggregate = Run(weights=weights or {"a": 1}, split=0, episodes=episodes).aggregate()
    return cast("JsonObject", aggregate["worst_case_bounds"])


def column(*results: CriterionResult) -> list[dict[str, CriterionResult]]:
    return [{"a": result} for result in results]


def test_without_a_gap_both_bounds_are_the_score() -> None:
    only: JsonObject = {"low": 0.5, "high": 0.5}
    assert bounds(*column(RIGHT, WRONG, HALF)) == {"a": only, "composite_score": only}


@pytest.mark.parametrize("gap", GAPS)
def test_each_sort_of_gap_could_have_gone_either_way(gap: Verdict) -> None:
    assert bounds(*column(RIGHT, gap, HALF, gap))["a"] == {"low": 0.375, "high": 0.875}


def test_an_episode_to_which_the_criterion_does_not_apply_is_no_gap() -> None:
    no = Verdict.NOT_APPLICABLE
    assert bounds(*column(RIGHT, no, WRONG, no))["a"] == {"low": 0.5, "high": 0.5}


def test_where_nothing_applies_there_are_no_bounds() -> None:
    assert bounds() == {"a": None, "composite_score": None}
    rows: list[dict[str, CriterionResult]] = [{"a": RIGHT, "b": Verdict.NOT_APPLICABLE}] * 2
    assert bounds(*rows, weights={"a": 1, "b": 1}) == {
        "a": {"low": 1, "high": 1},
        "b": None,
        "composite_score": None,
    }


def test_the_composite_weighs_the_unrounded_bounds() -> None:
    rows: list[dict[str, CriterionResult]] = [
        {"a": RIGHT, "b": WRONG},
        {"a": Verdict.MISSING, "b": Verdict.MISSING},
        {"a": WRONG, "b": Verdict.DECLINED},
    ]
    assert bounds(*rows, weights={"a": 1, "b": 3}) == {
        "a": {"low": 0.333333333, "high": 0.666666667},
        "b": {"low": 0, "high": 0.666666667},
        "composite_score": {"low": 0.083333333, "high": 0.666666667},
    }


@given(
    st.lists(
        st.sampled_from([RIGHT, WRONG, HALF, Verdict.NOT_APPLICABLE, *GAPS]), min_size=1, max_size=7
    ).filter(lambda results: any(one is not Verdict.NOT_APPLICABLE for one in results))
)
def test_the_bounds_are_the_lowest_and_highest_mean_of_all_ways_to_fill_the_gaps(
    results: list[CriterionResult],
) -> None:
    # Of what was not run nobody knows whether the criterion applies: it may also drop out.
    fillings = [
        [result.nano]
        if isinstance(result, Scored)
        else ([0, NANO, None] if result is Verdict.NOT_RUN else [0, NANO])
        for result in results
        if result is not Verdict.NOT_APPLICABLE
    ]
    means = [
        Fraction(sum(values), len(values) * NANO)
        for filled in itertools.product(*fillings)
        if (values := [value for value in filled if value is not None])
    ]
    assert bounds(*column(*results))["a"] == {
        "low": nine_places(min(means)),
        "high": nine_places(max(means)),
    }
