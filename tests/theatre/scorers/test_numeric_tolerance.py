"""`numeric_tolerance`: exact on the decimals as written, so edges lie where a reader puts them."""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.numeric_tolerance import SCORER

NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TOLERANCES = st.floats(min_value=0, max_value=1e300)
NOT_NUMBERS = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner | NUMBERS, max_size=3) | st.dictionaries(st.text(max_size=2), inner)
    ),
    max_leaves=8,
)


def score(answer: JsonValue, expected: JsonValue, **tolerances: float) -> float:
    params: JsonObject = {"field": "value", "expected": "value", **tolerances}
    return number(SCORER, case_of(params, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "tolerances", "value"),
    [
        (2, 2, {}, 1.0),
        (2, 2.0, {}, 1.0),
        (0, -0.0, {}, 1.0),
        (0.1 + 0.2, 0.3, {}, 0.0),
        (0.1 + 0.2, 0.3, {"abs": 1e-16}, 1.0),
        (0.1 + 0.2, 0.3, {"abs": 3e-17}, 0.0),
        (0.3, 0.2, {"abs": 0.1}, 1.0),
        (0.1, 0.2, {"abs": 0.1}, 1.0),
        (1.15, 1.1, {"abs": 0.05}, 1.0),
        (1.1500000000000001, 1.1, {"abs": 0.05}, 0.0),
        (110, 100, {"rel": 0.1}, 1.0),
        (-110, -100, {"rel": 0.1}, 1.0),
        (110.00001, 100, {"rel": 0.1}, 0.0),
        (100, 110, {"rel": 0.1}, 1.0),
        (100, 112, {"rel": 0.1}, 0.0),
        (112, 100, {"abs": 12, "rel": 0.1}, 1.0),
        (112, 100, {"abs": 1, "rel": 0.12}, 1.0),
        (1, 0, {"rel": 0.5}, 0.0),
        (1e308, -1e308, {"abs": 1.7e308}, 0.0),
        (1e308, 5e-324, {"abs": 1e308}, 1.0),
        (-1e308, 5e-324, {"abs": 1e308}, 0.0),
        (True, 1, {"abs": 5}, 0.0),
        ("1", 1, {"abs": 5}, 0.0),
        (None, 0, {"abs": 5}, 0.0),
        ([1], 1, {"abs": 5}, 0.0),
        (math.nan, 1, {"abs": 5}, 0.0),
        (math.inf, 1, {"abs": 5}, 0.0),
        pytest.param(10**5000, 1, {"abs": 5}, 0.0, id="huge"),
    ],
)
def test_a_number_counts_up_to_and_including_the_tolerance(
    answer: JsonValue, expected: JsonValue, tolerances: dict[str, float], value: float
) -> None:
    assert score(answer, expected, **tolerances) == value


@given(NUMBERS, NUMBERS, TOLERANCES)
def test_the_comparison_agrees_with_decimal_arithmetic_of_700_digits(
    answer: float, expected: float, tolerance: float
) -> None:
    with localcontext() as context:
        context.prec = 700
        gap = abs(Decimal(repr(answer)) - Decimal(repr(expected)))
        near = gap <= Decimal(repr(tolerance))
    assert score(answer, expected, abs=tolerance) == float(near)


@given(NUMBERS, TOLERANCES, TOLERANCES)
def test_the_expected_number_itself_scores_1(
    expected: float, absolute: float, relative: float
) -> None:
    assert score(expected, expected, abs=absolute, rel=relative) == 1.0


@given(NUMBERS, NUMBERS, TOLERANCES)
def test_an_absolute_tolerance_is_the_same_in_both_directions(
    one: float, other: float, tolerance: float
) -> None:
    assert score(one, other, abs=tolerance) == score(other, one, abs=tolerance)


@given(NUMBERS, NUMBERS, TOLERANCES, TOLERANCES, st.sampled_from(["abs", "rel"]))
def test_a_wider_tolerance_never_lowers_the_score(
    answer: float, expected: float, one: float, other: float, kind: str
) -> None:
    narrow, wide = sorted([one, other])
    assert score(answer, expected, **{kind: narrow}) <= score(answer, expected, **{kind: wide})


@given(NOT_NUMBERS, NUMBERS)
def test_an_answer_that_is_no_number_scores_0(answer: JsonValue, expected: float) -> None:
    assert score(answer, expected, abs=1e300, rel=1) == 0.0


@given(NUMBERS | NOT_NUMBERS, NOT_NUMBERS)
def test_an_expectation_that_is_no_number_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert math.isnan(score(answer, expected, abs=1))


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"field": "a", "expected": "b"}, True),
        ({"field": "a", "expected": "gold:b", "abs": 0.5, "rel": 0}, True),
        ({"field": "a"}, False),
        ({"expected": "a"}, False),
        ({"field": "", "expected": "b"}, False),
        ({"field": "a", "expected": "b", "abs": -0.5}, False),
        ({"field": "a", "expected": "b", "rel": True}, False),
        ({"field": "a", "expected": "b", "tolerance": 1}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "numeric_tolerance@1"
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
