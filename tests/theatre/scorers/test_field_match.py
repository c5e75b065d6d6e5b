"""`field_match`: the share of the expected members that the answer gets right."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.field_match import SCORER

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab", max_size=3)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), JSON, min_size=1, max_size=5)


def score(answer: JsonValue, expected: JsonValue, **params: JsonValue) -> float:
    return number(SCORER, case_of(params, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "params", "value"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {}, 1.0),
        ({"a": 1, "b": 3}, {"a": 1, "b": 2}, {}, 0.5),
        ({"a": 1}, {"a": 1, "b": 2, "c": 3}, {}, 1 / 3),
        ({"a": 1, "z": 9}, {"a": 1}, {}, 1.0),
        ({}, {"a": 1}, {}, 0.0),
        ({"a": None}, {"a": None}, {}, 1.0),
        ({}, {"a": None}, {}, 0.0),
        ({"a": True}, {"a": 1}, {"abs": 5}, 0.0),
        ({"a": 1.0}, {"a": 1}, {}, 1.0),
        ({"a": 0.3}, {"a": 0.2}, {"abs": 0.1}, 1.0),
        ({"a": 0.3000000001}, {"a": 0.2}, {"abs": 0.1}, 0.0),
        ({"a": "x", "b": 2}, {"a": "x", "b": 1}, {"abs": 1}, 1.0),
        ({"a": {"x": 1}}, {"a": {"x": 1.0}}, {}, 1.0),
        ({"a": {"x": 1}}, {"a": {"x": 2}}, {"abs": 1}, 0.0),
        ({"a": 1, "b": 9}, {"a": 1, "b": 2}, {"fields": ["a"]}, 1.0),
        ({"a": 9, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"fields": ["a", "b"]}, 0.5),
        ([1], {"a": 1}, {}, 0.0),
        ("a", {"a": 1}, {}, 0.0),
        (None, {"a": 1}, {}, 0.0),
    ],
)
def test_the_score_is_the_share_of_asked_members_that_agree(
    answer: JsonValue, expected: JsonValue, params: JsonObject, value: float
) -> None:
    assert score(answer, expected, **params) == value


UNASKABLE: list[tuple[JsonValue, JsonObject]] = [
    (None, {}),
    (1, {}),
    ("a", {}),
    ([{"a": 1}], {}),
    ({}, {}),
    ({"a": 1}, {"fields": ["a", "b"]}),
    ({}, {"fields": ["a"]}),
]


@given(JSON, st.sampled_from(UNASKABLE))
def test_an_expectation_that_cannot_be_asked_leaves_every_answer_unscored(
    answer: JsonValue, unaskable: tuple[JsonValue, JsonObject]
) -> None:
    expected, params = unaskable
    assert math.isnan(score(answer, expected, **params))


@given(JSON, OBJECTS)
def test_any_answer_gets_a_score_between_0_and_1(answer: JsonValue, expected: JsonObject) -> None:
    assert 0.0 <= score(answer, expected, abs=0.5) <= 1.0


@given(OBJECTS)
def test_the_expectation_itself_scores_1(expected: JsonObject) -> None:
    assert score(expected, expected) == 1.0


@given(OBJECTS, OBJECTS, st.data())
def test_correcting_one_member_never_lowers_the_score(
    answer: JsonObject, expected: JsonObject, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(expected)))
    corrected = answer | {name: expected[name]}
    gain = score(corrected, expected) - score(answer, expected)
    assert gain == pytest.approx(0.0) or gain == pytest.approx(1 / len(expected))


@given(OBJECTS, OBJECTS, st.floats(0, 10), st.floats(0, 10))
def test_a_wider_tolerance_never_lowers_the_score(
    answer: JsonObject, expected: JsonObject, one: float, other: float
) -> None:
    narrow, wide = sorted([one, other])
    assert score(answer, expected, abs=narrow) <= score(answer, expected, abs=wide)


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({}, True),
        ({"field": "a", "expected": "b", "fields": ["x"], "abs": 0.5}, True),
        ({"abs": 0}, True),
        ({"abs": -1}, False),
        ({"abs": "1"}, False),
        ({"fields": []}, False),
        ({"fields": ["x", "x"]}, False),
        ({"fields": [1]}, False),
        ({"rel": 0.1}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "field_match@1"
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
