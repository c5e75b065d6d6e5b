"""`set_f1`: what two arrays have in common, whatever the order, each item counted once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.scorers.scoring_cases import PLAIN_JSON, case_of, number
from theatre.engine.canonical_json import JsonValue
from theatre.scorers.set_f1 import SCORER

ARRAYS = st.lists(PLAIN_JSON, max_size=6)


def score(answer: JsonValue, expected: JsonValue) -> float:
    return number(SCORER, case_of({}, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ([], [], 1.0),
        ([], [1], 0.0),
        ([1], [], 0.0),
        ([1, 2, 3], [3, 2, 1], 1.0),
        ([1, 2], [1, 2, 3, 4], 2 / 3),
        ([1, 2, 3, 4], [1, 2], 2 / 3),
        ([1, 9], [1, 2], 0.5),
        ([1, 1], [1], 2 / 3),
        ([1, 1], [1, 2], 0.5),
        ([1, 1, 2], [1, 1, 2], 1.0),
        ([1, 2], [1, 1, 2], 0.8),
        ([1.0], [1], 1.0),
        ([True], [1], 0.0),
        ([[0, 1]], [[0, 1.0]], 1.0),
        ([{"q": 1, "r": 2}], [{"r": 2, "q": 1}], 1.0),
        ([math.nan], [math.nan], 0.0),
        ({}, [1], 0.0),
        ({}, [], 0.0),
        ("ab", ["a", "b"], 0.0),
        (None, [], 0.0),
    ],
)
def test_the_score_is_the_f1_of_counted_items(
    answer: JsonValue, expected: JsonValue, value: float
) -> None:
    assert score(answer, expected) == value


@given(PLAIN_JSON, st.sampled_from([None, True, 0, "ab", {"a": 1}]))
def test_an_expectation_that_is_no_array_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert math.isnan(score(answer, expected))


@given(PLAIN_JSON, ARRAYS)
def test_any_answer_gets_a_score_between_0_and_1(
    answer: JsonValue, expected: list[JsonValue]
) -> None:
    assert 0.0 <= score(answer, expected) <= 1.0


@given(ARRAYS.flatmap(lambda items: st.tuples(st.just(items), st.permutations(items))))
def test_the_expectation_in_any_order_scores_1(
    arrays: tuple[list[JsonValue], list[JsonValue]],
) -> None:
    expected, answer = arrays
    assert score(answer, expected) == 1.0


@given(ARRAYS, ARRAYS)
def test_the_score_is_the_same_in_both_directions(
    one: list[JsonValue], other: list[JsonValue]
) -> None:
    assert score(one, other) == score(other, one)


@given(ARRAYS, ARRAYS)
def test_an_item_that_nobody_expects_lowers_a_score_above_0(
    answer: list[JsonValue], expected: list[JsonValue]
) -> None:
    before, after = score(answer, expected), score([*answer, "unexpected"], expected)
    assert after < before or after == before == 0.0


@given(ARRAYS, ARRAYS.filter(bool))
def test_putting_a_missing_item_right_raises_the_score(
    kept: list[JsonValue], expected: list[JsonValue]
) -> None:
    # `expected` without its last item, plus noise: then that item is put in.
    noise = [["noise", item] for item in kept]
    answer = [*expected[:-1], *noise]
    assert score([*answer, expected[-1]], expected) > score(answer, expected)


def test_a_hostile_answer_of_a_mebibyte_is_scored_to_its_end() -> None:
    # Comparing each item with each would take hours here, not seconds.
    answer: list[JsonValue] = [[] for _ in range(350_000)]
    assert score(answer, [[]]) == 2 / 350_001
