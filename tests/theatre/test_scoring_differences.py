"""Tests of differences against counts by hand, scipy and published tables; their coverage."""

import hashlib
import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.differences import (
    DRAWS,
    MAX_DRAWN,
    MAX_ENUMERATED,
    Tally,
    clustered_difference,
    detectable_difference,
    difference_of_means,
    fisher_exact,
    holm,
    mcnemar,
    mean_difference,
    sign_flip_test,
    two_sample_test,
)

# Tracing would double the time of what is simulated.

SEED = "5e" * 32


def counted_out(differences: list[int]) -> float:
    moved = [one for one in differences if one]
    sums = [
        sum(sign * one for sign, one in zip(signs, moved, strict=True))
        for signs in product((1, -1), repeat=len(moved))
    ]
    return sum(abs(one) >= abs(sum(moved)) for one in sums) / len(sums)


@pytest.mark.parametrize("count", range(9))
def test_few_differences_are_gone_through(count: int) -> None:
    draw = np.random.default_rng(count)
    differences = [int(one) * 10**8 for one in draw.integers(-4, 8, count)]
    found = sign_flip_test(differences, seed=SEED)
    assert found["p_value"] == pytest.approx(counted_out(differences), abs=1e-6)
    assert (found["draws"], found["differing"]) == (None, sum(one != 0 for one in differences))


def test_drawn_signs_come_near_the_exact_value() -> None:
    draw = np.random.default_rng(7)
    differences = [int(one) * 10**8 or 1 for one in draw.integers(-5, 7, MAX_ENUMERATED + 1)]
    found = sign_flip_test(differences, seed=SEED)
    exact = counted_out(differences)
    assert found["draws"] == DRAWS
    assert 0.05 < exact < 0.95
    # Five standard errors of the draws.
    room = 5 * (exact * (1 - exact) / DRAWS) ** 0.5
    assert found["p_value"] == pytest.approx(exact, abs=room)
    assert found == sign_flip_test(differences, seed=SEED)


def test_no_drawn_p_value_is_nought() -> None:
    found = sign_flip_test([10**9] * 100, seed=SEED)
    assert found["p_value"] == round(1 / (DRAWS + 1), 6)


def test_where_nothing_differs_nothing_is_found() -> None:
    assert sign_flip_test([0] * 40, seed=SEED)["p_value"] == 1


def test_a_null_is_rejected_as_seldom_as_it_says() -> None:
    runs = np.random.default_rng(11).integers(-9, 10, (400, 12))
    found = [sign_flip_test([int(one) * 10**8 for one in run], seed=SEED) for run in runs]
    rejected = sum(float(str(one["p_value"])) <= 0.05 for one in found)
    # Never more than one in twenty but for chance: five standard errors above it.
    assert 0 < rejected <= len(runs) * 0.05 + 5 * (len(runs) * 0.05 * 0.95) ** 0.5


def test_the_detectable_difference_is_found_about_four_times_in_five() -> None:
    half = Fraction(1, 2)
    differences = [-half] * 12 + [Fraction(0)] * 36 + [half] * 12
    needed = detectable_difference({str(at): [one] for at, one in enumerate(differences)})
    assert needed is not None
    moved = [one + Fraction(needed) for one in differences]
    runs = np.random.default_rng(3).integers(0, len(moved), (400, len(moved)))
    lows = [
        mean_difference({str(at): [moved[i]] for at, i in enumerate(run)})["low"] for run in runs
    ]
    seen = sum(isinstance(low, float) and low > 0 for low in lows) / len(runs)
    # Four standard errors, and what the two added units bring.
    assert 0.7 < seen < 0.9


@pytest.mark.parametrize("values", [[], [Fraction(1)], [Fraction(1), Fraction(-1)]])
def test_too_few_changes_can_detect_nothing(values: list[Fraction]) -> None:
    assert detectable_difference({str(at): [one] for at, one in enumerate(values)}) is None


Units = list[list[Fraction]]


def shares(hits: int, count: int) -> Units:
    return [[Fraction(int(place < hits))] for place in range(count)]


def graded(draw: np.random.Generator, count: int, a: float = 2) -> Units:
    return [[Fraction(round(one * 1000), 1000)] for one in draw.beta(a, 2, count)]


def test_many_signs_follow_their_normal_law() -> None:
    draw = np.random.default_rng(5)
    differences = [int(one) for one in draw.integers(-(10**9), 10**9, MAX_DRAWN)]
    drawn = sign_flip_test(differences, seed=SEED)
    beyond = sign_flip_test([*differences, 1], seed=SEED)
    assert (drawn["test"], beyond["test"], beyond["draws"]) == ("sign_flip", "sign_flip_clt", None)
    assert beyond["p_value"] == pytest.approx(drawn["p_value"], abs=0.02)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((56, 70), (48, 80)),
        ((0, 5), (5, 5)),
        ((3, 9), (4, 4)),
        ((0, 3), (0, 7)),
        ((90, 99), (2, 3)),
    ],
)
def test_fishers_exact_test_is_that_of_scipy(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    from scipy import stats

    table = [[hits, count - hits] for hits, count in (first, second)]
    expected = stats.fisher_exact(table).pvalue
    assert fisher_exact(Tally(*first), Tally(*second)) == pytest.approx(expected, abs=1e-6)
    found = two_sample_test(shares(*first), shares(*second), seed=SEED, clustered=False)
    assert (found["test"], found["p_value"]) == (
        "fisher",
        fisher_exact(Tally(*first), Tally(*second)),
    )


def test_mcnemar_is_exact_for_many_pairs() -> None:
    from scipy import stats

    pairs = [(True, False)] * 480 + [(False, True)] * 540 + [(True, True)] * 50
    expected = stats.binomtest(480, 1020).pvalue
    assert mcnemar(pairs)["p_value"] == pytest.approx(expected, rel=1e-9)


def test_two_shares_have_the_interval_of_newcombes_table() -> None:
    """Newcombe 1998, table II, method 10, to its four places."""
    cases = {
        ((56, 70), (48, 80)): (0.0524, 0.3339),
        ((9, 10), (3, 10)): (0.1705, 0.8090),
        ((5, 56), (0, 29)): (-0.0381, 0.1926),
        ((0, 10), (0, 20)): (-0.1611, 0.2775),
    }
    for (first, second), bounds in cases.items():
        found = difference_of_means(
            shares(*first), shares(*second), seeds=(SEED, SEED), clustered=False
        )
        assert found["method"] == "newcombe"
        assert (found["low"], found["high"]) == pytest.approx(bounds, abs=0.00006)


def test_dealt_units_come_near_scipys_permutations_and_their_normal_law() -> None:
    from scipy import stats

    draw = np.random.default_rng(2)
    first, second = graded(draw, 40, 2.6), graded(draw, 30)
    found = two_sample_test(first, second, seed=SEED, clustered=False)
    assert (found["test"], found["draws"], found["differing"]) == ("permutation", DRAWS, 70)
    reference = stats.permutation_test(
        [[float(one) for (one,) in units] for units in (first, second)],
        lambda ours, theirs, axis: np.mean(ours, axis=axis) - np.mean(theirs, axis=axis),
        vectorized=True,
        n_resamples=4999,
        rng=np.random.default_rng(1),
    )
    assert 0.001 < reference.pvalue < 0.9
    assert found["p_value"] == pytest.approx(reference.pvalue, abs=5 * math.sqrt(0.25 / 4999))
    many = two_sample_test(first * 72, second * 72, seed=SEED, clustered=True)
    assert (many["test"], many["draws"]) == ("permutation_clt", None)
    assert float(str(many["p_value"])) < float(str(found["p_value"]))


def test_whole_clusters_are_dealt() -> None:
    right, wrong = [Fraction(1)] * 3, [Fraction(0)] * 3
    found = two_sample_test([right, right], [wrong, wrong], seed=SEED, clustered=True)
    # Two of the six dealings of four clusters are as far; as single episodes it would be 2 / 924.
    assert found["p_value"] == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / DRAWS))


def test_holm_is_counted_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03, 0.5]) == [0.09, 0.04, 0.09, 0.5]
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


# How often each interval of a difference holds the truth, as docs/statistics.md has it.


PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
SOAK = os.environ.get("ECHELON_SOAK") == "1"
REPEATS = 1000 if SOAK else 20
HEADER = "| difference of | units | method | holds the truth |\n|---|---|---|---|\n"


Law = Callable[[np.random.Generator, int], JsonObject]


def differing(up: float, down: float) -> Law:
    """Pairs of right and wrong: the first alone is right in a share `up`, the other in `down`."""

    def drawn(draw: np.random.Generator, count: int) -> JsonObject:
        return paired(draw.choice([1.0, -1.0, 0.0], count, p=(up, down, 1 - up - down)))

    return drawn


def graded_pairs(draw: np.random.Generator, count: int) -> JsonObject:
    return paired(draw.beta(4, 2, count) - draw.beta(2, 2, count))


def paired(differences: npt.NDArray[np.float64]) -> JsonObject:
    units = [Fraction(round(one * 10**6), 10**6) for one in differences]
    return mean_difference({str(at): [one] for at, one in enumerate(units)})


def clustered_pairs(draw: np.random.Generator, clusters: int) -> JsonObject:
    """1 to 9 pairs a cluster; how often the first alone is right is each cluster's own."""
    units = []
    for lean in 0.4 * draw.random(clusters):
        law = (lean, 0.1, 0.9 - lean)
        units.append(
            [Fraction(int(one)) for one in draw.choice([1, -1, 0], draw.integers(1, 10), p=law)]
        )
    return clustered_difference(units, seed=seed_of(draw))[0]


def two_shares(draw: np.random.Generator, count: int) -> JsonObject:
    hits = draw.binomial(count, [0.8, 0.7])
    return apart(shares(int(hits[0]), count), shares(int(hits[1]), count), draw)


def two_graded(draw: np.random.Generator, count: int) -> JsonObject:
    return apart(graded(draw, count, 4), graded(draw, count), draw)


def apart(first: Units, second: Units, draw: np.random.Generator) -> JsonObject:
    seeds = seed_of(draw), seed_of(draw)
    return difference_of_means(first, second, seeds=seeds, clustered=False)


def seed_of(draw: np.random.Generator) -> str:
    return hashlib.sha256(draw.bytes(8)).hexdigest()


LAWS: dict[str, tuple[float, Law]] = {
    "pairs, right or wrong": (0.1, differing(0.18, 0.08)),
    "pairs, right or wrong, 5 % differ": (0.03, differing(0.04, 0.01)),
    "pairs, graded": (1 / 6, graded_pairs),
    "pairs in clusters": (0.1, clustered_pairs),
    "two samples, right or wrong": (0.1, two_shares),
    "two samples, graded": (1 / 6, two_graded),
}


def documented() -> list[tuple[str, int, str, float]]:
    """Return the rows of the table: difference, units, method, share."""
    (table,) = re.findall(re.escape(HEADER) + r"((?:\|.*\|\n)+)", PAGE)
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [
        (name, int(units), method.strip("`"), float(share.rstrip(" %")) / 100)
        for name, units, method, share in rows
    ]


def coverage(name: str, units: int, method: str, repeats: int) -> float:
    truth, law = LAWS[name]
    held = 0
    for repeat in range(repeats):
        found = law(np.random.default_rng([units, repeat]), units)
        assert found["method"] in {method, "undefined"}
        low, high = found["low"], found["high"]
        held += isinstance(low, float) and isinstance(high, float) and low <= truth <= high
    return held / repeats


CASES = documented()
RESAMPLED = [case for case in CASES if case[2] in {"cluster_bca", "mover"}]


@pytest.mark.parametrize(
    ("name", "units", "method", "share"), [one for one in CASES if one not in RESAMPLED], ids=str
)
def test_a_difference_holds_the_truth_as_often_as_documented(
    name: str, units: int, method: str, share: float
) -> None:
    require_documented(name, units, method, share)


@pytest.mark.parametrize(("name", "units", "method", "share"), RESAMPLED, ids=str)
def test_a_resampled_difference_holds_the_truth_as_often_as_documented(
    name: str, units: int, method: str, share: float
) -> None:
    require_documented(name, units, method, share)


def require_documented(name: str, units: int, method: str, share: float) -> None:
    # Of a share of 1 a single miss in twenty is no contradiction.
    error = math.sqrt(max(share * (1 - share), 0.01) / REPEATS)
    tolerance = 0.002 if SOAK else 4 * error
    assert coverage(name, units, method, REPEATS) == pytest.approx(share, abs=tolerance)
