"""`sequence_similarity`: edit distance over arrays and strings, exact and bounded in cost."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.scorers.scoring_cases import PLAIN_JSON, case_of, number
from theatre.engine.canonical_json import JsonValue
from theatre.scorers.sequence_similarity import MAX_ANSWER, MAX_EXPECTED, SCORER, edit_distance

STRINGS = st.text("abc", max_size=80)
ARRAYS = st.lists(PLAIN_JSON, max_size=8)


def score(answer: JsonValue, expected: JsonValue) -> float:
    return number(SCORER, case_of({}, answer, expected=expected))


def textbook_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the Levenshtein distance by the table of Wagner and Fischer."""
    row = list(range(len(other) + 1))
    for index, item in enumerate(one, start=1):
        above, row[0] = row[0], index
        for column, counterpart in enumerate(other, start=1):
            above, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, above + (item != counterpart)),
            )
    return row[-1]


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("", "", 1.0),
        ([], [], 1.0),
        ("", "abc", 0.0),
        ("abc", "", 0.0),
        ("kitten", "sitting", 4 / 7),
        ("flaw", "lawn", 0.5),
        ("abc", "cba", 1 / 3),
        ("e\u0301", "é", 0.0),
        ("😀b", "😀a", 0.5),
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([1, 2, 3], [3, 2, 1], 1 / 3),
        ([1, 2, 3, 4], [1, 3, 4], 0.75),
        ([1.0, True], [1, 1], 0.5),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}], 1.0),
        ([math.nan, 1], [math.nan, 1], 0.5),
        (["a", "b"], "ab", 0.0),
        ("ab", ["a", "b"], 0.0),
        ("", [], 0.0),
        ([], "", 0.0),
        (None, "a", 0.0),
        (1, [1], 0.0),
        ({"0": 1}, [1], 0.0),
    ],
)
def test_the_score_is_1_minus_the_distance_over_the_longer_length(
    answer: JsonValue, expected: JsonValue, value: float
) -> None:
    assert score(answer, expected) == value


@given(STRINGS, STRINGS)
def test_the_distance_is_the_textbook_s(one: str, other: str) -> None:
    assert edit_distance(one, other) == textbook_distance(one, other)


@given(st.lists(st.sampled_from(["x", None]), max_size=6), st.integers(0, 6))
def test_an_item_that_equals_nothing_never_matches(items: list[str | None], length: int) -> None:
    assert edit_distance(items, [None] * length) == max(len(items), length)


@given(PLAIN_JSON, st.sampled_from([None, True, 0, 2.5, {"a": 1}]))
def test_an_expectation_that_is_no_sequence_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert math.isnan(score(answer, expected))


@given(PLAIN_JSON, STRINGS | ARRAYS)
def test_any_answer_gets_a_score_between_0_and_1(
    answer: JsonValue, expected: str | list[JsonValue]
) -> None:
    assert 0.0 <= score(answer, expected) <= 1.0


@given(STRINGS | ARRAYS)
def test_the_expectation_itself_scores_1(expected: str | list[JsonValue]) -> None:
    assert score(expected, expected) == 1.0


@given(STRINGS | ARRAYS, STRINGS | ARRAYS)
def test_the_score_is_the_same_in_both_directions(
    one: str | list[JsonValue], other: str | list[JsonValue]
) -> None:
    assert score(one, other) == score(other, one)


@given(STRINGS, STRINGS.filter(bool))
def test_a_longer_common_beginning_never_lowers_the_score(rest: str, expected: str) -> None:
    wrong = "z" * len(expected)
    scores = [score(expected[:n] + wrong[n:] + rest, expected) for n in range(len(expected) + 1)]
    assert scores == sorted(scores)


def test_an_answer_beyond_the_limit_scores_0_and_one_at_the_limit_does_not() -> None:
    expected = "a" * MAX_EXPECTED
    assert score("a" * MAX_ANSWER, expected) == 0.5
    assert score("a" * (MAX_ANSWER + 1), expected) == 0.0
    items: list[JsonValue] = [1] * (MAX_ANSWER + 1)
    assert score(items[:-1], items[:MAX_EXPECTED]) == 0.5
    assert score(items, items[:MAX_EXPECTED]) == 0.0


@pytest.mark.parametrize("answer", ["a", "a" * (MAX_EXPECTED + 1), None])
def test_an_expectation_beyond_the_limit_leaves_every_answer_unscored(answer: JsonValue) -> None:
    assert math.isnan(score(answer, "a" * (MAX_EXPECTED + 1)))


@pytest.mark.parametrize(
    "answer",
    ["ab" * 524_288, [[]] * 349_525, "ab" * (MAX_ANSWER // 2), ["a", [[]]] * (MAX_ANSWER // 2)],
)
def test_a_hostile_answer_is_scored_to_its_end(answer: JsonValue) -> None:
    expected: JsonValue = "ba" * 2500 if isinstance(answer, str) else [[], "a"] * 2500
    assert 0.0 <= score(answer, expected) <= 0.5
