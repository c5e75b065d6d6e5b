"""Resampled intervals: against scipy, against the definition, and the same for everybody."""

import hashlib
import tracemalloc
from fractions import Fraction
from statistics import NormalDist
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from theatre.engine.models import CriterionResult, Scored, Verdict
from theatre.engine.scoring import CriterionPlan
from theatre.engine.scoring.bootstrap import MAX_BOOTSTRAP_UNITS, Sample, resampled_interval
from theatre.engine.scoring.tallies import ResampledUnits
from theatre.scorers import load_scorers

SEED = hashlib.sha256(b"a commitment").hexdigest()
UNDEFINED = {"low": None, "high": None, "method": "undefined", "level": 0.95}


def graded(n: int) -> npt.NDArray[np.int64]:
    """Return n skewed scores in billionths, the same on every machine."""
    raw = np.random.PCG64(n).random_raw(2 * n) >> np.uint64(11)
    uniform = raw.astype(np.float64) / 2**53
    return (np.maximum(uniform[:n], uniform[n:]) * 1e9).astype(np.int64)


def plain_sample(values: npt.NDArray[np.int64]) -> Sample:
    return Sample(values[:, None], np.ones((len(values), 1), np.int64), np.array([1.0]))


def bounds(interval: object) -> tuple[float, float]:
    found = cast("dict[str, float]", interval)
    return found["low"], found["high"]


@pytest.mark.parametrize("n", [10, 50, 163, 500])
def test_bca_agrees_with_scipy_within_what_10000_draws_can_tell(n: int) -> None:
    from scipy import stats

    values = graded(n)
    ours = bounds(resampled_interval(plain_sample(values), seed=SEED, clustered=False))
    theirs = stats.bootstrap(
        (values / 1e9,), np.mean, n_resamples=20_000, method="BCa", batch=2000, rng=1
    ).confidence_interval
    # The standard error of a 2.5 % quantile of 10,000 draws is about 0.027 standard errors.
    tolerance = 5 * 0.027 * float(np.std(values / 1e9, ddof=1)) / np.sqrt(n)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=tolerance)


def test_above_5000_units_the_interval_is_the_normal_one() -> None:
    values = graded(MAX_BOOTSTRAP_UNITS + 1)
    interval = resampled_interval(plain_sample(values), seed=SEED, clustered=False)
    scores = values / 1e9
    means = NormalDist(float(scores.mean()), float(scores.std(ddof=1)) / len(scores) ** 0.5)
    expected = means.inv_cdf(0.025), means.inv_cdf(0.975)
    assert bounds(interval) == pytest.approx(expected, abs=1e-6)
    assert cast("dict[str, object]", interval)["method"] == "clt"


def test_above_5000_units_a_criterion_that_few_have_counts_as_the_contract_says() -> None:
    """score ± z · √(n / (n - 1) · Σ u²), as the check computes it; the jackknife lies wider."""
    n, few = MAX_BOOTSTRAP_UNITS + 1, 60
    sums, counts = np.zeros((n, 2), np.int64), np.zeros((n, 2), np.int64)
    sums[:few, 0], counts[:few, 0] = graded(few), 1
    sums[:, 1], counts[:, 1] = graded(n), 1
    interval = resampled_interval(
        Sample(sums, counts, np.array([0.99, 0.01])), seed=SEED, clustered=False
    )
    means = sums.sum(axis=0) / counts.sum(axis=0)
    added = ((sums - means * counts) / counts.sum(axis=0)) @ np.array([0.99, 0.01]) / 1e9
    half = 1.959963984540054 * np.sqrt(n / (n - 1) * (added**2).sum())
    score = float(means @ np.array([0.99, 0.01])) / 1e9
    assert bounds(interval) == pytest.approx((score - half, score + half), abs=2e-6)


@pytest.mark.reproducibility
def test_everybody_draws_the_same_resamples() -> None:
    interval = resampled_interval(plain_sample(graded(50)), seed=SEED, clustered=False)
    assert bounds(interval) == pytest.approx(EXPECTED_50, abs=2e-6)
    other = resampled_interval(plain_sample(graded(50)), seed="0" * 64, clustered=False)
    assert bounds(other) != bounds(interval)


EXPECTED_50 = (0.571003, 0.713156)


@pytest.mark.parametrize(
    "values",
    [np.array([], np.int64), np.array([5], np.int64), np.array([7, 7, 7], np.int64)],
    ids=["none", "one", "all equal"],
)
def test_without_two_units_that_differ_there_is_no_interval(values: npt.NDArray[np.int64]) -> None:
    assert resampled_interval(plain_sample(values), seed=SEED, clustered=False) == UNDEFINED


def test_at_the_limit_memory_does_not_grow_with_the_number_of_draws_times_units() -> None:
    sample = plain_sample(graded(MAX_BOOTSTRAP_UNITS))
    tracemalloc.start()
    interval = resampled_interval(sample, seed=SEED, clustered=False)
    assert cast("dict[str, object]", interval)["method"] == "bca"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All draws at once would be 10,000 x 5,000 x 8 bytes = 400 MB.
    assert peak < 150e6


def plans(*weights: Fraction) -> list[CriterionPlan]:
    scorer = load_scorers()["exact_match"]
    return [
        CriterionPlan(criterion_id=f"c{i}", scorer=scorer, params={}, weight=weight)
        for i, weight in enumerate(weights)
    ]


def gathered(
    rows: list[tuple[dict[str, CriterionResult], str | None]], *weights: Fraction
) -> ResampledUnits:
    units = ResampledUnits(plans(*weights))
    for scores, cluster in rows:
        units.add(scores, cluster)
    return units


def test_a_cluster_is_drawn_whole_so_that_copies_add_no_certainty() -> None:
    values = [int(value) for value in graded(40)]
    single = gathered([({"c0": Scored(v)}, None) for v in values], Fraction(1))
    copies = gathered(
        [({"c0": Scored(v)}, f"user {i}") for i, v in enumerate(values) for _ in range(5)],
        Fraction(1),
    )
    naive = gathered([({"c0": Scored(v)}, None) for v in values for _ in range(5)], Fraction(1))
    widths = []
    for units in (single, copies, naive):
        low, high = bounds(units.criterion_interval(0, seed=SEED))
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], rel=0.02)
    assert widths[2] < 0.6 * widths[1]


def test_the_composite_keeps_the_criteria_of_an_episode_together() -> None:
    rows: list[tuple[dict[str, CriterionResult], str | None]] = []
    for value in graded(60):
        mirrored = {"c0": Scored(int(value)), "c1": Scored(10**9 - int(value))}
        rows.append((cast("dict[str, CriterionResult]", mirrored), None))
    half = Fraction(1, 2)
    # The two always add up to 1: nothing varies, however often episodes are drawn.
    assert gathered(rows, half, half).composite_interval(seed=SEED) == UNDEFINED


def test_two_clusters_that_come_to_the_same_alone_still_differ_together() -> None:
    right, wrong = Scored(10**9), Scored(0)
    rows: list[tuple[dict[str, CriterionResult], str | None]] = [
        ({"c0": right, "c1": wrong}, "a"),
        ({"c0": wrong, "c1": right}, "b"),
        ({"c0": wrong, "c1": Verdict.NOT_APPLICABLE}, "b"),
    ]
    half = Fraction(1, 2)
    # Each has one half; both together five twelfths.
    interval = gathered(rows, half, half).composite_interval(seed=SEED)
    assert interval == {
        "low": 0.416667,
        "high": 0.5,
        "method": "cluster_bca",
        "level": 0.95,
    }


def test_the_composite_of_criteria_on_different_episodes_adds_their_variances() -> None:
    rows: list[tuple[dict[str, CriterionResult], str | None]] = []
    first, second = graded(400), graded(300)
    rows += [({"c0": Scored(int(v)), "c1": Verdict.NOT_APPLICABLE}, None) for v in first]
    rows += [({"c0": Verdict.NOT_APPLICABLE, "c1": Scored(int(v))}, None) for v in second]
    weights = Fraction(3, 10), Fraction(7, 10)
    low, high = bounds(gathered(rows, *weights).composite_interval(seed=SEED))
    variance = sum(
        float(weight) ** 2 * float(np.var(values / 1e9, ddof=1)) / len(values)
        for weight, values in zip(weights, (first, second), strict=True)
    )
    assert high - low == pytest.approx(2 * 1.96 * variance**0.5, rel=0.05)


def test_a_failure_counts_as_a_zero_and_a_refusal_not_at_all() -> None:
    failed: list[tuple[dict[str, CriterionResult], str | None]] = [
        ({"c0": Verdict.MISSING}, None),
        ({"c0": Verdict.EXCLUDED}, None),
        ({"c0": Scored(10**9)}, None),
        ({"c0": Scored(5 * 10**8)}, None),
    ]
    zeros: list[tuple[dict[str, CriterionResult], str | None]] = [
        ({"c0": Scored(0)}, None),
        ({"c0": Scored(10**9)}, None),
        ({"c0": Scored(5 * 10**8)}, None),
    ]
    one, other = gathered(failed, Fraction(1)), gathered(zeros, Fraction(1))
    assert one.criterion_interval(0, seed=SEED) == other.criterion_interval(0, seed=SEED)


def test_the_order_of_episodes_changes_no_bound() -> None:
    rows: list[tuple[dict[str, CriterionResult], str | None]] = [
        ({"c0": Scored(int(v))}, None) for v in graded(30)
    ]
    forwards, backwards = gathered(rows, Fraction(1)), gathered(rows[::-1], Fraction(1))
    assert forwards.criterion_interval(0, seed=SEED) == backwards.criterion_interval(0, seed=SEED)


def test_a_criterion_without_a_value_leaves_the_composite_undefined() -> None:
    rows: list[tuple[dict[str, CriterionResult], str | None]] = [
        ({"c0": Scored(int(v)), "c1": Verdict.UNSCORED}, None) for v in graded(30)
    ]
    half = Fraction(1, 2)
    assert gathered(rows, half, half).composite_interval(seed=SEED) == UNDEFINED
