"""Exact arithmetic: decimals in, rationals inside, one rounding half-even at the end."""

import decimal
import itertools
import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import IntEnum
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theatre.engine.scoring import exact, nano_to_number, ratio, to_nano
from theatre.engine.scoring.arithmetic import normalised_weights, rounded_number

UNIT_FLOATS = st.floats(min_value=0, max_value=1)
ROOMY = Context(prec=2000)


@pytest.mark.parametrize(
    ("value", "nano"),
    [
        (0, 0),
        (1, 1_000_000_000),
        (0.0, 0),
        (-0.0, 0),
        (1.0, 1_000_000_000),
        (0.5, 500_000_000),
        (1 / 3, 333_333_333),
        (2 / 3, 666_666_667),
        (0.1 + 0.2, 300_000_000),
        (5e-324, 0),
        (4.9e-10, 0),
        (5.1e-10, 1),
        (math.nextafter(1, 0), 1_000_000_000),
    ],
)
def test_a_number_becomes_billionths(value: float, nano: int) -> None:
    assert to_nano(value) == nano


@pytest.mark.parametrize(
    ("value", "nano"),
    [
        (0.0000000005, 0),
        (0.0000000015, 2),
        (0.0000000025, 2),
        (0.0000000035, 4),
        (0.1234567885, 123_456_788),
        (0.1234567895, 123_456_790),
        (0.9999999985, 999_999_998),
        (0.9999999995, 1_000_000_000),
    ],
)
def test_a_tie_goes_to_the_even_billionth_of_the_decimal_that_is_written(
    value: float, nano: int
) -> None:
    assert to_nano(value) == nano


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        math.nan,
        math.inf,
        -math.inf,
        -5e-324,
        -1,
        math.nextafter(1, 2),
        2,
        2.0,
        10**400,
        -(10**400),
        "0.5",
        b"1",
        Decimal("0.5"),
        Fraction(1, 2),
        0.5 + 0j,
        [1.0],
        {},
    ],
    ids=str,
)
def test_what_is_no_number_from_0_to_1_is_no_score(value: object) -> None:
    assert to_nano(value) is None


class LoudFloat(float):
    """Writes itself as numpy's doubles do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"np.float64({float(self)!r})"


class Grade(IntEnum):
    FAIL = 0
    PASS = 1


def test_a_subclass_of_a_number_counts_as_the_number_however_it_writes_itself() -> None:
    assert repr(LoudFloat(0.25)) == "np.float64(0.25)"
    assert to_nano(LoudFloat(0.25)) == 250_000_000
    assert [to_nano(grade) for grade in Grade] == [0, 1_000_000_000]
    assert exact(LoudFloat(0.1)) == Fraction(1, 10)


def test_a_scorer_that_changed_the_decimal_context_changes_no_arithmetic() -> None:
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_UP):
        assert to_nano(0.1234567885) == 123_456_788
        assert exact(0.123456789) == Fraction(123456789, 10**9)
        assert normalised_weights([0.123, 0.877]) == (Fraction(123, 1000), Fraction(877, 1000))


@given(UNIT_FLOATS)
def test_every_score_is_its_decimal_rounded_half_even_to_nine_places(value: float) -> None:
    quantum = Decimal("0.000000001")
    rounded = Decimal(repr(value)).quantize(quantum, rounding=ROUND_HALF_EVEN, context=ROOMY)
    assert to_nano(value) == int(rounded * 10**9)


@given(st.integers(min_value=0, max_value=10**9))
def test_billionths_are_shown_as_the_nearest_double_and_read_back_unchanged(nano: int) -> None:
    number = nano_to_number(nano)
    assert number == float(f"{nano // 10**9}.{nano % 10**9:09d}")
    assert to_nano(number) == nano


@given(st.integers(min_value=-(10**6), max_value=10**6), st.integers(min_value=0, max_value=17))
def test_a_number_is_taken_as_the_decimal_it_is_written_as(digits: int, places: int) -> None:
    number = float(f"{digits}e-{places}")
    assert exact(number) == Fraction(digits, 10**places)


def test_a_rational_is_rounded_half_even_once() -> None:
    billionth = Fraction(1, 10**9)
    halves = [Fraction(n, 2) * billionth for n in range(8)]
    assert [rounded_number(half) * 10**9 for half in halves] == [0, 0, 1, 2, 2, 2, 3, 4]
    assert rounded_number(Fraction(2, 3)) == 0.666666667
    # Rounded twice, to 10 places and then to 9, it would become 0.12345679.
    assert rounded_number(Fraction(12345678949999, 10**14)) == 0.123456789


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [
        (1, 3, 0.333333333),
        (2, 3, 0.666666667),
        (0, 5, 0.0),
        (5, 5, 1.0),
        (1, 2_000_000_000, 0.0),
        (3, 2_000_000_000, 2e-9),
        (0, 0, None),
    ],
)
def test_a_ratio_has_nine_places_and_none_where_there_is_nothing_to_divide(
    numerator: int, denominator: int, expected: float | None
) -> None:
    assert ratio(numerator, denominator) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.3, 0.5, 0.2], ["3/10", "1/2", "1/5"]),
        ([1, 1], ["1/2", "1/2"]),
        ([1.0], ["1"]),
        ([0.333333, 0.333333, 0.333333], ["1/3", "1/3", "1/3"]),
        ([0.1, 0.2, 0.7000005], ["200000/2000001", "400000/2000001", "1400001/2000001"]),
        ([0, 1], ["0", "1"]),
    ],
)
def test_weights_are_exact_decimals_scaled_exactly_to_one(
    weights: list[float], expected: list[str]
) -> None:
    assert normalised_weights(weights) == tuple(Fraction(text) for text in expected)


@settings(deadline=None)
@given(st.lists(UNIT_FLOATS, min_size=1, max_size=6).filter(any))
def test_weights_sum_to_exactly_one_in_every_order(weights: list[float]) -> None:
    normalised = normalised_weights(weights)
    assert sum(normalised) == 1
    by_weight = dict(zip(weights, normalised, strict=True))
    for order in itertools.islice(itertools.permutations(weights), 24):
        assert normalised_weights(order) == tuple(by_weight[weight] for weight in order)
