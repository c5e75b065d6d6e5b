"""The ECE of a calibrated construct: counted out for a few answers, simulated for many."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.scoring.calibration import (
    MAX_EXACT_VALUES,
    Bin,
    ece_if_calibrated,
    exact_deviation,
    normal_deviation,
)

NANO = 10**9
REPEATS = 20_000

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")

CONSTRUCTS: dict[str, npt.NDArray[np.float64]] = {
    "100 spread out": np.linspace(0.005, 0.995, 100),
    "100 mostly sure": np.linspace(0, 1, 100) ** 0.2,
    "100 all at 0.8": np.full(100, 0.8),
    "100 almost certain": np.full(100, 0.999),
    "400 in two bins": np.tile([0.72, 0.93], 200),
    "2,000 spread out": np.linspace(0.005, 0.995, 2000),
    "2,000 in one bin": np.linspace(0.9, 0.99, 2000),
}


def null_values(probabilities: npt.NDArray[np.float64]) -> tuple[float, float]:
    bins = [Bin() for _ in range(10)]
    for probability in probabilities:
        bins[min(int(probability * 10), 9)].add(round(probability * NANO), right=True)
    return ece_if_calibrated([one.deviation for one in bins], len(probabilities))


def simulated(probabilities: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the ECE of REPEATS runs of a construct whose every probability is exactly right."""
    rng = np.random.default_rng(len(probabilities))
    places = np.minimum((probabilities * 10).astype(int), 9)
    apart = np.zeros(REPEATS)
    for place in np.unique(places):
        inside = probabilities[places == place]
        right = np.concatenate(
            [(rng.random((1000, len(inside))) < inside).sum(axis=1) for _ in range(REPEATS // 1000)]
        )
        apart += np.abs(right - inside.sum())
    return apart / len(probabilities)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_calibrated_construct_shows_the_expected_ece_on_average(name: str) -> None:
    runs = simulated(CONSTRUCTS[name])
    expected, _ = null_values(CONSTRUCTS[name])
    error = float(runs.std()) / math.sqrt(REPEATS)
    assert expected == pytest.approx(float(runs.mean()), abs=4 * error + 1e-6)
    assert expected > 0


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_calibrated_construct_exceeds_the_upper_value_about_one_time_in_twenty(name: str) -> None:
    _, upper = null_values(CONSTRUCTS[name])
    share = float((simulated(CONSTRUCTS[name]) > upper).mean())
    # An ECE of a hundred answers moves in steps, and of near-certain ones in very few.
    low, high = {"100 almost certain": (0.08, 0.11)}.get(name, (0.03, 0.07))
    assert low <= share <= high


def test_the_documented_null_values_are_these() -> None:
    table = re.findall(r"^\| probabilities .+\n.+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    measured = []
    for name, probabilities in CONSTRUCTS.items():
        expected, upper = null_values(probabilities)
        exceeding = float((simulated(probabilities) > upper).mean())
        measured.append([name, f"{expected:.3f}", f"{upper:.3f}", f"{exceeding:.1%}"])
    assert [[cell.replace(" %", "%") for cell in row] for row in rows] == measured


@given(st.lists(st.integers(0, NANO), min_size=1, max_size=8))
def test_few_probabilities_are_counted_out(nanos: list[int]) -> None:
    shares = [Fraction(nano, NANO) for nano in nanos]
    mean = square = Fraction(0)
    for outcome in itertools.product([0, 1], repeat=len(shares)):
        chance = Fraction(1)
        for share, right in zip(shares, outcome, strict=True):
            chance *= share if right else 1 - share
        apart = abs(sum(outcome) - sum(shares, Fraction(0)))
        mean += chance * apart
        square += chance * apart**2
    found = exact_deviation(sorted(nanos))
    assert found.mean == pytest.approx(float(mean), abs=1e-12)
    assert found.variance == pytest.approx(float(square - mean**2), abs=1e-12)


@pytest.mark.parametrize("probability", [0.5, 0.93])
def test_equal_probabilities_give_the_mean_deviation_of_the_binomial(probability: float) -> None:
    from scipy import stats

    n = MAX_EXACT_VALUES
    successes = np.arange(n + 1)
    apart = np.abs(successes - n * probability)
    reference = float((stats.binom.pmf(successes, n, probability) * apart).sum())
    found = exact_deviation([round(probability * NANO)] * n)
    assert found.mean == pytest.approx(reference, rel=1e-9)


def test_the_normal_law_takes_over_where_it_is_good_enough() -> None:
    ramp = [k * NANO // 1000 for k in range(901, 1000)] * 10
    variance = sum((Fraction(n, NANO) * (1 - Fraction(n, NANO)) for n in ramp), Fraction(0))
    exact, normal = exact_deviation(sorted(ramp)), normal_deviation(variance)
    assert normal.mean == pytest.approx(exact.mean, rel=0.005)
    assert normal.variance == pytest.approx(exact.variance, rel=0.02)


def test_a_bin_keeps_no_more_values_than_the_exact_law_needs() -> None:
    one = Bin()
    for step in range(5 * MAX_EXACT_VALUES):
        one.add(step * 1000, right=False)
    assert (one.count, len(one.values)) == (5 * MAX_EXACT_VALUES, MAX_EXACT_VALUES)
    share = [Fraction(step * 1000, NANO) for step in range(5 * MAX_EXACT_VALUES)]
    variance = sum((p * (1 - p) for p in share), Fraction(0))
    assert one.deviation == normal_deviation(variance)


def test_the_order_of_the_values_in_a_bin_changes_no_last_place() -> None:
    nanos = [900_000_000 + (k * k * 7_919) % 99_999_989 for k in range(500)]
    forwards, backwards = Bin(), Bin()
    for one, values in ((forwards, nanos), (backwards, nanos[::-1])):
        for nano in values:
            one.add(nano, right=True)
    assert forwards.deviation == backwards.deviation
    # What the order would change, were the values not sorted.
    assert exact_deviation(nanos) != exact_deviation(nanos[::-1])


@pytest.mark.parametrize("certain", [0.0, 1.0])
def test_certainties_leave_nothing_to_chance(certain: float) -> None:
    assert null_values(np.full(100, certain)) == (0, 0)
