"""Wilson intervals against published tables, scipy, and the equation that they solve."""

import math
from statistics import NormalDist
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.scoring import wilson_interval

Z = NormalDist().inv_cdf(0.975)


def bounds(successes: int, trials: int) -> tuple[float, float]:
    interval = wilson_interval(successes, trials)
    assert interval == {
        "low": interval["low"],
        "high": interval["high"],
        "method": "wilson",
        "level": 0.95,
    }
    return cast("float", interval["low"]), cast("float", interval["high"])


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # The contract's own examples, to three places.
        (45, 50, 0.786, 0.957),
        (50, 50, 0.929, 1.0),
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3, to four places.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(
    successes: int, trials: int, low: float, high: float
) -> None:
    places = 3 if trials == 50 else 4
    assert tuple(round(bound, places) for bound in bounds(successes, trials)) == (low, high)


@pytest.mark.parametrize("trials", [1, 2, 10, 50, 240, 5000])
def test_the_interval_is_that_of_scipy(trials: int) -> None:
    from scipy import stats

    for successes in {0, 1, trials // 3, trials // 2, trials - 1, trials}:
        reference = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
        assert bounds(successes, trials) == pytest.approx(
            (reference.low, reference.high), abs=5.1e-7
        )


@pytest.mark.parametrize("trials", [1, 2, 10, 50, 240, 5000, 10**6])
def test_no_success_and_no_failure_reach_the_end_of_the_range_exactly(trials: int) -> None:
    none_low, none_high = bounds(0, trials)
    all_low, all_high = bounds(trials, trials)
    assert (none_low, math.copysign(1, none_low), all_high) == (0.0, 1.0, 1.0)
    # The other bound has a closed form there: z^2 / (n + z^2).
    other = Z * Z / (trials + Z * Z)
    assert none_high == pytest.approx(other, abs=1e-6)
    assert all_low == pytest.approx(1 - other, abs=1e-6)


@given(
    st.integers(min_value=1, max_value=3000).flatmap(
        lambda n: st.tuples(st.integers(min_value=0, max_value=n), st.just(n))
    )
)
def test_each_bound_is_as_far_from_the_share_as_its_own_standard_error_says(
    case: tuple[int, int],
) -> None:
    successes, trials = case
    share = successes / trials
    low, high = bounds(successes, trials)
    assert 0 <= low <= share <= high <= 1
    for bound in (low, high):
        # Wilson's definition: (share - bound)^2 = z^2 bound (1 - bound) / n, up to 6 places.
        slope = 2 * abs(share - bound) + Z * Z / trials
        difference = (share - bound) ** 2 - Z * Z * bound * (1 - bound) / trials
        assert abs(difference) <= 0.6e-6 * slope + 1e-12


@given(st.integers(min_value=2, max_value=2000), st.data())
def test_the_interval_is_symmetric_and_grows_with_every_success(
    trials: int, data: st.DataObject
) -> None:
    successes = data.draw(st.integers(min_value=1, max_value=trials))
    low, high = bounds(successes, trials)
    mirrored = bounds(trials - successes, trials)
    assert (low, high) == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1.1e-6)
    low_before, high_before = bounds(successes - 1, trials)
    assert low_before < low
    assert high_before < high
    assert [round(bound, 6) for bound in (low, high)] == [low, high]
