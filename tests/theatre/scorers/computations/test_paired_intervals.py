"""Intervals of pairs: Wilson's where pairs are alone, wider where they share a clean episode."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.scoring.arithmetic import wilson_interval
from theatre.engine.scoring.differences import Tally, mean_difference, share_of_pairs

# The differences that it publishes are the engine's.


def alone(hits: int, pairs: int) -> dict[str, Tally]:
    return {str(number): Tally(int(number < hits), 1) for number in range(pairs)}


@pytest.mark.parametrize(("hits", "pairs"), [(0, 20), (1, 20), (13, 40), (48, 52), (52, 52)])
def test_with_one_pair_a_unit_it_is_the_interval_of_the_engine(hits: int, pairs: int) -> None:
    assert share_of_pairs(alone(hits, pairs)) == {
        "value": round(hits / pairs, 9),
        **wilson_interval(hits, pairs),
    }


def test_pairs_of_a_unit_that_always_agree_count_as_one() -> None:
    together = {str(number): Tally(3 * int(number < 13), 3) for number in range(40)}
    found = share_of_pairs(together)
    assert (found["method"], found["value"]) == ("cluster_wilson", 0.325)
    # 40 units have 39 degrees of freedom: the bounds solve Wilson's equation for 39 pairs.
    for bound in (found["low"], found["high"]):
        assert isinstance(bound, float)
        variance = bound * (1 - bound) / 39
        assert (0.325 - bound) ** 2 == pytest.approx(1.959963984540054**2 * variance, abs=2e-6)


def test_pairs_of_units_that_are_all_alike_count_as_all_pairs_and_not_as_more() -> None:
    alike = {str(number): Tally(1, 2) for number in range(30)}
    engine = wilson_interval(30, 60)
    found = share_of_pairs(alike)
    assert (found["low"], found["high"]) == (engine["low"], engine["high"])


@pytest.mark.parametrize("hits", [0, 3])
def test_where_nothing_varies_each_unit_counts_once(hits: int) -> None:
    found = share_of_pairs({str(number): Tally(hits, 3) for number in range(20)})
    engine = wilson_interval(20 * hits // 3, 20)
    assert (found["low"], found["high"]) == (engine["low"], engine["high"])


@pytest.mark.parametrize(
    ("units", "value"), [({}, None), ({"a": Tally(1, 4)}, 0.25), ({"a": Tally(4, 4)}, 1.0)]
)
def test_below_two_units_there_is_no_interval(units: dict[str, Tally], value: float | None) -> None:
    assert share_of_pairs(units) == {
        "value": value,
        "low": None,
        "high": None,
        "method": "undefined",
        "level": 0.95,
    }


def units(longest: int) -> st.SearchStrategy[dict[str, Tally]]:
    one = st.integers(1, longest).flatmap(
        lambda pairs: st.builds(Tally, st.integers(0, pairs), st.just(pairs))
    )
    return st.lists(one, min_size=2, max_size=30).map(
        lambda found: {str(number): unit for number, unit in enumerate(found)}
    )


@given(units(4))
def test_the_share_lies_in_its_interval_and_that_between_0_and_1(found: dict[str, Tally]) -> None:
    interval = share_of_pairs(found)
    value, low, high = (interval[name] for name in ("value", "low", "high"))
    assert isinstance(value, float)
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert 0 <= low <= value + 1e-6
    assert value - 1e-6 <= high <= 1


def test_the_gap_has_the_adjusted_interval_of_bonett_and_price() -> None:
    differences = [1] * 7 + [-1] * 3 + [0] * 16
    # By hand from the formula: two discordant pairs more, one on either side.
    one_way, other_way, count = Fraction(8, 28), Fraction(4, 28), 28
    centre = float(one_way - other_way)
    error = math.sqrt(float(one_way + other_way - (one_way - other_way) ** 2) / count)
    assert mean_difference({str(n): [one] for n, one in enumerate(differences)}) == {
        "value": 0.153846154,
        "low": round(centre - 1.959963984540054 * error, 6),
        "high": round(centre + 1.959963984540054 * error, 6),
        "method": "bonett_price",
        "level": 0.95,
    }


def test_a_gap_has_a_width_where_every_difference_is_the_same() -> None:
    found = mean_difference({str(number): [1] for number in range(26)})
    assert found["value"] == 1
    assert found["high"] == 1
    assert isinstance(found["low"], float)
    assert 0.7 < found["low"] < 0.9


def test_differences_of_one_unit_count_by_their_mean() -> None:
    single = mean_difference({"a": [1], "b": [0], "c": [-1]})
    assert mean_difference({"a": [1, 1], "b": [1, -1], "c": [-1]}) == single


@pytest.mark.parametrize(("given_units", "value"), [({}, None), ({"a": []}, None), ({"a": [1]}, 1)])
def test_a_gap_below_two_units_has_no_interval(
    given_units: dict[str, list[int]], value: float | None
) -> None:
    found = mean_difference(given_units)
    assert (found["value"], found["low"], found["high"]) == (value, None, None)
    assert found["method"] == "undefined"
