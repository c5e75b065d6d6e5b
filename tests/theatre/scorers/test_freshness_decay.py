"""`freshness_decay`: half the score a half-life, the same digits everywhere."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import format_rfc3339
from theatre.scorers.freshness_decay import SCORER, half_power

AS_OF = "2026-06-16T10:00:00Z"
DAY, WEEK = 86_400, 604_800
NOW = datetime(2026, 6, 16, 10, tzinfo=UTC)
AGES = st.timedeltas(timedelta(0), timedelta(days=700_000))
HALF_LIVES = st.floats(1e-6, 1e12) | st.integers(1, 2**53 - 1)


def score(cited: JsonValue, half_life: float = WEEK, reference: JsonValue = AS_OF) -> float:
    params: JsonObject = {"field": "t", "reference": "as_of", "half_life_seconds": half_life}
    return number(SCORER, case_of(params, cited, input_data={"as_of": reference}))


def expected_score(cited: JsonValue, expected: JsonValue) -> float:
    params: JsonObject = {"field": "t", "expected": "t", "half_life_seconds": WEEK}
    return number(SCORER, case_of(params, cited, expected=expected))


@pytest.mark.parametrize(
    ("cited", "half_life", "value"),
    [
        (AS_OF, WEEK, 1.0),
        ("2026-06-16T10:00:00.000000Z", WEEK, 1.0),
        ("2026-06-09T10:00:00Z", WEEK, 0.5),
        ("2026-06-02T10:00:00Z", WEEK, 0.25),
        ("2026-06-09T10:00:00Z", 2 * WEEK, 0.707106781),
        ("2026-06-15T10:00:00Z", WEEK, 0.905723664),
        ("2026-06-15T10:00:00Z", 0.5 * DAY, 0.25),
        ("2026-06-16T09:59:59.5Z", 0.5, 0.5),
        ("2026-06-16T09:59:59.9Z", 0.1, 0.5),
        ("2026-06-16T09:59:50Z", 1, 0.000976562),  # 2^-10 is a tie at nine places: to even
        ("2026-06-16T09:59:30Z", 1, 0.000000001),
        ("2026-06-16T09:59:29Z", 1, 0.0),
        ("0001-01-01T00:00:00Z", 1, 0.0),
        ("0001-01-01T00:00:00Z", 5e-324, 0.0),
        ("0001-01-01T00:00:00Z", 1e300, 1.0),
        ("2026-06-16T10:00:00.000001Z", WEEK, 0.0),
        ("9999-12-31T23:59:59Z", WEEK, 0.0),
        ("2026-06-16T12:00:00+02:00", WEEK, 0.0),
        ("2026-06-16", WEEK, 0.0),
        ("", WEEK, 0.0),
        (None, WEEK, 0.0),
        (1_781_604_000, WEEK, 0.0),
        ([AS_OF], WEEK, 0.0),
    ],
)
def test_the_score_halves_with_every_half_life_of_age(
    cited: JsonValue, half_life: float, value: float
) -> None:
    assert score(cited, half_life) == value


@pytest.mark.parametrize(
    ("cited", "value"),
    [("2026-06-16T10:00:00Z", 1.0), ("2026-06-09T10:00:00Z", 0.5), ("2026-06-17T10:00:00Z", 0.0)],
)
def test_the_reference_may_be_the_expected_time(cited: str, value: float) -> None:
    assert expected_score(cited, AS_OF) == value


@pytest.mark.parametrize("reference", [None, "", "yesterday", 0, ["2026-06-16T10:00:00Z"], {}])
@pytest.mark.parametrize("cited", [AS_OF, None, "soon"])
def test_a_reference_that_is_no_time_leaves_every_answer_unscored(
    cited: JsonValue, reference: JsonValue
) -> None:
    assert math.isnan(score(cited, WEEK, reference))
    assert math.isnan(expected_score(cited, reference))


def test_a_reference_that_the_input_lacks_leaves_the_answer_unscored() -> None:
    params: JsonObject = {"field": "t", "reference": "a.as_of", "half_life_seconds": WEEK}
    assert math.isnan(number(SCORER, case_of(params, AS_OF, input_data={"as_of": AS_OF})))


def test_a_reference_may_lie_deep_in_the_input() -> None:
    params: JsonObject = {"field": "t", "reference": "pool.1.at", "half_life_seconds": WEEK}
    pool: JsonObject = {"pool": [{}, {"at": "2026-06-23T10:00:00Z"}]}
    assert number(SCORER, case_of(params, AS_OF, input_data=pool)) == 0.5


@given(HOSTILE_JSON)
def test_any_answer_gets_a_score_between_0_and_1(cited: JsonValue) -> None:
    assert 0.0 <= score(cited) <= 1.0


@given(HALF_LIVES)
def test_the_reference_itself_scores_1(half_life: float) -> None:
    assert score(AS_OF, half_life) == 1.0


@given(AGES, AGES, HALF_LIVES)
def test_an_older_source_never_scores_more(
    one: timedelta, other: timedelta, half_life: float
) -> None:
    younger, older = sorted([one, other])
    assert score(format_rfc3339(NOW - older), half_life) <= score(
        format_rfc3339(NOW - younger), half_life
    )


@given(AGES, HALF_LIVES, HALF_LIVES)
def test_a_longer_half_life_never_lowers_the_score(
    age: timedelta, one: float, other: float
) -> None:
    short, long = sorted([one, other])
    cited = format_rfc3339(NOW - age)
    assert score(cited, short) <= score(cited, long)


@given(st.fractions(0, 40, max_denominator=10**6))
def test_the_power_is_that_of_the_platform_to_nine_places(times: Fraction) -> None:
    assert half_power(times) == pytest.approx(2.0 ** -float(times), abs=6e-10)
    assert half_power(times) == round(half_power(times), 9)


@given(st.fractions(0, 64, max_denominator=10**9))
def test_the_rounding_is_right_in_integers(times: Fraction) -> None:
    # v = halved(t) is right where (v - u/2)^q ≤ 2^-p ≤ (v + u/2)^q; checked for small q.
    times = Fraction(times.numerator % 640, 1 + times.denominator % 12)
    unit = Fraction(1, 10**9)
    value = Fraction(round(half_power(times) * 10**9), 10**9)
    power = Fraction(1, 2**times.numerator)
    low, high = max(value - unit / 2, Fraction(0)), value + unit / 2
    assert low**times.denominator <= power <= high**times.denominator


@pytest.mark.reproducibility
def test_the_digits_are_the_same_on_every_python() -> None:
    seconds = [1, 3_600, 86_400, 604_799, 1_000_000, 3_333_333]
    cited = [format_rfc3339(NOW - timedelta(seconds=age)) for age in seconds]
    assert [score(time) for time in cited] == [
        *(0.999998854, 0.995882624, 0.905723664, 0.500000573, 0.317881474, 0.021922205),
    ]


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"field": "t", "reference": "as_of", "half_life_seconds": 1}, True),
        ({"field": "t", "expected": "t", "half_life_seconds": 0.5}, True),
        ({"field": "t", "expected": "t", "reference": "as_of", "half_life_seconds": 1}, False),
        ({"field": "t", "half_life_seconds": 1}, False),
        ({"reference": "as_of", "half_life_seconds": 1}, False),
        ({"field": "t", "reference": "as_of"}, False),
        ({"field": "t", "reference": "as_of", "half_life_seconds": 0}, False),
        ({"field": "t", "reference": "as_of", "half_life_seconds": "1"}, False),
        ({"field": "t", "reference": "as_of", "half_life_seconds": 1, "unit": "s"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "freshness_decay@1"
    assert not SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
