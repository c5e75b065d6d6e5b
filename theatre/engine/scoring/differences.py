"""Shares, differences and their tests: pairs of verdicts or scores, two samples, and clusters.

Sources stand at each function; what the intervals hold is measured in docs/statistics.md. Scores
are exact fractions, so that no result depends on the order of episodes or on the platform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import (
    LEVEL,
    NANO,
    Z,
    published_interval,
    rounded_number,
    undefined_interval,
    wilson_bounds,
    wilson_interval,
)
from theatre.engine.scoring.bootstrap import Floats, Sample, resampled_interval

# Intervals round what pairs show: a share of pairs, and the mean difference of two verdicts.
#
# Pairs that share a clean episode are no independent draws: the unit is the clean episode. Only
# sums, products, quotients and square roots of doubles are used, which round alike on every
# platform.


_Z_POWER = 0.8416212335729143
"""The 80 % point of the standard normal distribution."""
_PLACES = 6
_FEWEST_UNITS = 2
# A few megabytes an array of a drawn test.
_CELLS_IN_MEMORY = 1 << 19


class Tally(NamedTuple):
    """The result of the pairs of one unit: `hits` of `pairs`, pairs ≥ 1."""

    hits: int
    pairs: int


def share_of_pairs(units: Mapping[str, Tally]) -> JsonObject:
    """Return the share of hits among all pairs, with its 95 % interval.

    `wilson` where each unit has one pair. Else `cluster_wilson`: Wilson's interval for as many
    independent pairs as would vary as much as these do between units (Kish 1965, "Survey
    Sampling", on the effective sample size; Dean and Pagano 2015 on Wilson's interval with it),
    and for one a unit where nothing varies. `undefined`, with null bounds, below two units.
    """
    hits = sum(unit.hits for unit in units.values())
    pairs = sum(unit.pairs for unit in units.values())
    if not pairs:
        return _undefined(None)
    share = Fraction(hits, pairs)
    if len(units) < _FEWEST_UNITS:
        return _undefined(rounded_number(share))
    is_single = all(unit.pairs == 1 for unit in units.values())
    trials = float(pairs) if is_single else effective_pairs(units)
    low, high = wilson_bounds(float(share), trials)
    method = "wilson" if is_single else "cluster_wilson"
    return {"value": rounded_number(share)} | published_interval(low, high, method)


def effective_pairs(units: Mapping[str, Tally]) -> float:
    """Return how many independent pairs would tell as much: at most as many as there are.

    From two units on, with a pair or more.
    """
    pairs = sum(unit.pairs for unit in units.values())
    share = Fraction(sum(unit.hits for unit in units.values()), pairs)
    squares = sum(
        ((unit.hits - share * unit.pairs) ** 2 for unit in units.values()), start=Fraction(0)
    )
    if share in (0, 1):
        return float(len(units))
    if not squares:
        return float(pairs)
    variance = squares * Fraction(len(units), len(units) - 1) / pairs**2
    return float(min(share * (1 - share) / variance, Fraction(pairs)))


def mean_difference(units: Mapping[str, Sequence[Fraction | int]]) -> JsonObject:
    """Return the mean over units of their mean difference, each from -1 to 1, with its interval.

    The adjusted Wald interval for paired proportions (Bonett and Price 2012): two units more,
    one for either side, so that it has a width where all differences are equal. For differences
    of scores, which lie between, it is wider than it need be. `undefined`, with null bounds,
    below two units.
    """
    means = _means(units)
    if not means:
        return _undefined(None)
    value = rounded_number(sum(means, start=Fraction(0)) / len(means))
    if len(means) < _FEWEST_UNITS:
        return _undefined(value)
    centre, error = _adjust(means)
    half = Z * error
    return {
        "value": value,
        "low": max(-1.0, round(float(centre) - half, _PLACES)),
        "high": min(1.0, round(float(centre) + half, _PLACES)),
        "method": "bonett_price",
        "level": LEVEL,
    }


def detectable_difference(units: Mapping[str, Sequence[Fraction | int]]) -> float | None:
    """Return the mean difference that as many units would tell from 0 four times in five.

    At the level and with the standard error of `mean_difference`, so for differences that vary as
    these do. None below two units, and where it would have to be more than 1.
    """
    means = _means(units)
    if len(means) < _FEWEST_UNITS:
        return None
    _, error = _adjust(means)
    needed = round((Z + _Z_POWER) * error, _PLACES)
    return needed if needed <= 1 else None


def _means(units: Mapping[str, Sequence[Fraction | int]]) -> list[Fraction]:
    return [Fraction(sum(unit, start=Fraction(0)), len(unit)) for unit in units.values() if unit]


def _adjust(means: Sequence[Fraction]) -> tuple[Fraction, float]:
    """Return the centre and standard error with one unit more for either side."""
    count = len(means) + 2
    centre = sum(means, start=Fraction(0)) / count
    square = (sum((mean**2 for mean in means), start=Fraction(0)) + 2) / count
    return centre, math.sqrt(float((square - centre**2) / count))


def _undefined(value: float | None) -> JsonObject:
    return {"value": value} | undefined_interval()


# Whether such differences could come about if neither of two constructs were better.


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> JsonObject:
    """Return the exact two-sided McNemar test over paired passes (Mosteller 1952)."""
    first = sum(one and not other for one, other in pairs)
    second = sum(other and not one for one, other in pairs)
    odd = first + second
    tail, ways = 0, 1
    for k in range(min(first, second) + 1):
        tail, ways = tail + ways, ways * (odd - k) // (k + 1)
    return {
        "only_first": first,
        "only_second": second,
        "p_value": min(1.0, 2 * tail / 2**odd) if odd else 1.0,
    }


def fisher_exact(first: Tally, second: Tally) -> float:
    """Return the two-sided p-value of Fisher's exact test for two shares, to six places.

    Over all tables with these margins that are no likelier than the one seen (Fisher 1935).
    """
    hits = first.hits + second.hits
    low, high = max(0, hits - second.pairs), min(first.pairs, hits)
    ways = math.comb(first.pairs, low) * math.comb(second.pairs, hits - low)
    tables = {}
    for k in range(low, high + 1):
        tables[k] = ways
        # Exact: what is divided is a product of two binomial coefficients times the divisor.
        ways = ways * (first.pairs - k) * (hits - k) // ((k + 1) * (second.pairs - hits + k + 1))
    seen = tables[first.hits]
    return round(sum(one for one in tables.values() if one <= seen) / sum(tables.values()), _PLACES)


MAX_ENUMERATED = 16
"""Up to so many differences that are not 0, all signs are gone through; above, they are drawn."""
DRAWS = 20_000
MAX_DRAWN = 5_000
"""Above so many units a test takes the normal law of its own statistic, in place of draws."""

_ROWS = 1_000
_WORD = 64
_NORMAL = NormalDist()


def sign_flip_test(differences: Sequence[int], *, seed: str) -> JsonObject:
    """Return the two-sided p-value of the sum of `differences`, in billionths.

    If neither construct is better, each difference could as well have had the other sign (Fisher
    1935, "The Design of Experiments"). `differing` counts those that are not 0; `draws` is null
    where all signs were gone through, and the p-value exact, and above `MAX_DRAWN` (the normal
    law). Where signs are drawn (from `seed`, hexadecimal digits), the observed ones count as a
    draw (Phipson and Smyth 2010), so it is never below 1 / (draws + 1).
    """
    moved = np.array([one for one in differences if one], dtype=np.int64)
    if len(moved) <= MAX_ENUMERATED:
        return _test_result("sign_flip", len(moved), _enumerated(moved), draws=None)
    if len(moved) > MAX_DRAWN:
        spread = math.sqrt(math.fsum(float(one) ** 2 for one in moved))
        p_value = _two_sided(float(moved.sum()) / spread)
        return _test_result("sign_flip_clt", len(moved), p_value, draws=None)
    return _test_result("sign_flip", len(moved), _drawn(moved, seed), draws=DRAWS)


def _test_result(name: str, differing: int, p_value: float, *, draws: int | None) -> JsonObject:
    return {
        "test": name,
        "differing": differing,
        "draws": draws,
        "p_value": round(p_value, _PLACES),
    }


def _two_sided(z: float) -> float:
    return 2 * _NORMAL.cdf(-abs(z))


def _enumerated(moved: npt.NDArray[np.int64]) -> float:
    sums = np.zeros(1, dtype=np.int64)
    for one in moved:
        sums = np.concatenate((sums + one, sums - one))
    return float(np.mean(np.abs(sums) >= abs(int(moved.sum()))))


def _drawn(moved: npt.NDArray[np.int64], seed: str) -> float:
    source = np.random.PCG64(int(seed, 16))
    words = -(-len(moved) // _WORD)
    total, beyond = int(moved.sum()), 0
    for _ in range(DRAWS // _ROWS):
        raw = source.random_raw(_ROWS * words).astype("<u8").reshape(_ROWS, words)
        heads = np.unpackbits(raw.view(np.uint8), axis=1)[:, : len(moved)]
        sums = 2 * (heads.astype(np.int64) @ moved) - total
        beyond += int(np.count_nonzero(np.abs(sums) >= abs(total)))
    return (beyond + 1) / (DRAWS + 1)


# Scores of many episodes, grouped by the units that are independent: clusters, or single episodes.

Units = Sequence[Sequence[Fraction]]
"""The scores of each unit; no unit is empty."""


def clustered_difference(units: Units, *, seed: str) -> tuple[JsonObject, float | None]:
    """Return the mean of paired differences (-1 to 1) with its interval, and what is detectable.

    Whole clusters are drawn again, as for a score: `cluster_bca`, above 5,000 clusters
    `cluster_clt`; `undefined`, with null bounds, below two clusters or where nothing varies. What
    is detectable is as in `detectable_difference`, from the jackknife's standard error.
    """
    pooled = [one for unit in units for one in unit]
    if not pooled:
        return _undefined(None), None
    value = rounded_number(sum(pooled, start=Fraction(0)) / len(pooled))
    # Moved into 0 to 1, where scores lie: (difference + 1) / 2.
    sample = _sample([[(one + 1) / 2 for one in unit] for unit in units])
    interval = resampled_interval(sample, seed=seed, clustered=True)
    if interval["low"] is None:
        return {"value": value} | interval, None
    low, high = (round(2 * float(str(interval[bound])) - 1, _PLACES) for bound in ("low", "high"))
    jackknife = sample.leave_one_out()
    square = (len(units) - 1) / len(units) * float(np.square(jackknife - jackknife.mean()).sum())
    needed = round((Z + _Z_POWER) * 2 * math.sqrt(square), _PLACES)
    found = {"value": value} | interval | {"low": low, "high": high}
    return found, needed if needed <= 1 else None


def _sample(units: Units) -> Sample:
    """Return units as rows that depend on what was scored, not on the order of episodes."""
    sums = np.array([round(sum(unit, start=Fraction(0)) * NANO) for unit in units], dtype=np.int64)
    counts = np.array([len(unit) for unit in units], dtype=np.int64)
    order = np.lexsort((counts, sums))
    return Sample(sums[order, None], counts[order, None], np.ones(1))


def difference_of_means(
    first: Units, second: Units, *, seeds: tuple[str, str], clustered: bool
) -> JsonObject:
    """Return the difference of two independent means of scores, with its interval.

    From the interval that each mean has by itself (docs/contract/scoring.md §5), by the squares of
    their distances: `newcombe` where both are Wilson's (Newcombe 1998, method 10), else `mover`
    (Zou and Donner 2008). `undefined`, with null bounds, where one of them has none.
    """
    means = [_mean(units) for units in (first, second)]
    if means[0] is None or means[1] is None:
        return _undefined(None)
    value = means[0] - means[1]
    alone = [
        _mean_interval(units, seed, clustered=clustered)
        for units, seed in zip((first, second), seeds, strict=True)
    ]
    if any(one["low"] is None for one in alone):
        return _undefined(rounded_number(value))
    (low_1, high_1), (low_2, high_2) = (
        (float(str(one["low"])), float(str(one["high"]))) for one in alone
    )
    ours, theirs = float(means[0]), float(means[1])
    return {
        "value": rounded_number(value),
        "low": max(-1.0, round(ours - theirs - math.hypot(ours - low_1, high_2 - theirs), _PLACES)),
        "high": min(1.0, round(ours - theirs + math.hypot(high_1 - ours, theirs - low_2), _PLACES)),
        "method": "newcombe" if all(one["method"] == "wilson" for one in alone) else "mover",
        "level": LEVEL,
    }


def _mean(units: Units) -> Fraction | None:
    pooled = [one for unit in units for one in unit]
    return sum(pooled, start=Fraction(0)) / len(pooled) if pooled else None


def _mean_interval(units: Units, seed: str, *, clustered: bool) -> JsonObject:
    pooled = [one for unit in units for one in unit]
    if not clustered and all(one in (0, 1) for one in pooled):
        return wilson_interval(int(sum(pooled)), len(pooled))
    return resampled_interval(_sample(units), seed=seed, clustered=clustered)


def two_sample_test(first: Units, second: Units, *, seed: str, clustered: bool) -> JsonObject:
    """Return the two-sided p-value of two independent means being equal.

    `fisher` where all scores are 0 or 1 and there are no clusters. Else `permutation`: how often
    means lie as far apart if units are dealt to the two sides at random (Fisher 1935); drawn from
    `seed`, the dealing that was seen counting as a draw. Above `MAX_DRAWN` units in all its normal
    law. `differing` counts all units.
    """
    total = len(first) + len(second)
    pooled = [one for units in (first, second) for unit in units for one in unit]
    if not clustered and all(one in (0, 1) for one in pooled):
        tallies = (
            Tally(int(sum(one for unit in units for one in unit)), len(units))
            for units in (first, second)
        )
        return _test_result("fisher", total, fisher_exact(*tallies), draws=None)
    samples = _sample(first), _sample(second)
    sums, counts = (
        np.concatenate([getattr(one, name)[:, 0].astype(np.float64) for one in samples])
        for name in ("sums", "counts")
    )
    if total > MAX_DRAWN:
        return _test_result(
            "permutation_clt", total, _dealt_normally(sums, counts, len(first)), draws=None
        )
    p_value = _dealt(sums, counts, len(first), seed)
    return _test_result("permutation", total, p_value, draws=DRAWS)


def _dealt(sums: Floats, counts: Floats, size: int, seed: str) -> float:
    """Return how often the first `size` of shuffled units lie as far from the rest."""
    source = np.random.PCG64(int(seed, 16))
    all_sums, all_counts = sums.sum(), counts.sum()

    def apart(ours: Floats, number: Floats) -> Floats:
        far: Floats = np.abs(ours / number - (all_sums - ours) / (all_counts - number))
        return far

    # Less a rounding error of doubles: a dealing that is as far counts.
    seen = float(apart(sums[:size].sum(), counts[:size].sum())) * (1 - 1e-12)
    rows = max(1, _CELLS_IN_MEMORY // len(sums))
    beyond = 0
    for begin in range(0, DRAWS, rows):
        held = min(rows, DRAWS - begin)
        raw = source.random_raw(held * len(sums)).reshape(held, len(sums))
        chosen = np.argpartition(raw, size - 1, axis=1)[:, :size]
        far = apart(sums[chosen].sum(axis=1), counts[chosen].sum(axis=1))
        beyond += int(np.count_nonzero(far >= seen))
    return (beyond + 1) / (DRAWS + 1)


def _dealt_normally(sums: Floats, counts: Floats, size: int) -> float:
    values = (sums - sums.sum() / counts.sum() * counts) / counts.mean()
    rest = len(values) - size
    apart = values[:size].mean() - values[size:].mean()
    error = math.sqrt(float(values.var(ddof=1)) * (1 / size + 1 / rest))
    return _two_sided(float(apart) / error) if error else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return each p-value as one of all of them, in the order given (Holm 1979)."""
    places = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, reached = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(places):
        reached = max(reached, min(1.0, p_values[place] * (len(places) - rank)))
        corrected[place] = round(reached, _PLACES)
    return corrected


def auroc(negatives: Sequence[float], positives: Sequence[float]) -> float | None:
    """Return the chance that a positive scores above a negative, ties half; None without both."""
    if not negatives or not positives:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in positives for other in negatives)
    return round(wins / (len(positives) * len(negatives)), _PLACES)
