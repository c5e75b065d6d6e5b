"""Intervals of weighted means by resampling whole units: BCa, and the normal one for large n.

Source: docs/contract/scoring.md §5; Efron 1987 (BCa). Scores are integer
billionths, so every sum is exact in a double whatever its order, and PCG64's raw stream is the
same in every numpy: two machines draw the same resamples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import LEVEL, published_interval, undefined_interval

DRAWS = 10_000
MAX_BOOTSTRAP_UNITS = 5_000
"""Above so many units the normal interval takes over: it is as right there (docs/statistics.md),
and resamples cost time by the unit."""

# One unit says nothing of how much units differ: no interval, rather than one without a width.
_MIN_UNITS = 2
# What floating-point numbers leave of a difference that is 0, next to what it is one of.
_ROUNDING = 1e-14
# A megabyte an array, so that the work stays in the processor's cache. No draw depends on it.
_CELLS_IN_MEMORY = 1 << 17
_NORMAL = NormalDist()
_HALF_WIDTH = _NORMAL.inv_cdf((1 + LEVEL) / 2)

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """What is resampled: a row a unit (an episode, or a whole cluster of them).

    `sums[u, c]` is the sum of the scores of unit u on criterion c in billionths, `counts[u, c]`
    over how many values; `weights[c]` sum to 1. The statistic is Σ weight · Σ sums / Σ counts.
    """

    sums: Integers
    counts: Integers
    weights: Floats

    @property
    def units(self) -> int:
        """Return the number of units."""
        return len(self.sums)

    def statistic(self, sums: Floats, counts: Floats) -> Floats:
        """Return the weighted mean for rows of totals, in units of 1; NaN without a value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return (sums / counts) @ self.weights / 1e9

    def observed(self) -> float:
        """Return the statistic of the sample itself."""
        totals = self.sums.sum(axis=0, dtype=np.float64), self.counts.sum(axis=0, dtype=np.float64)
        return float(self.statistic(*totals))

    def added(self) -> tuple[Floats, Floats]:
        """Return what each unit adds to the statistic less its share of it, and of how much."""
        totals = self.counts.sum(axis=0)
        shares = self.sums.sum(axis=0) / totals * self.counts
        more, of = (self.sums - shares) / totals, (self.sums + shares) / totals
        return more @ self.weights / 1e9, of @ self.weights / 1e9

    def leave_one_out(self) -> Floats:
        """Return the statistic without each unit in turn, in closed form."""
        sums = self.sums.sum(axis=0) - self.sums
        counts = self.counts.sum(axis=0) - self.counts
        return self.statistic(sums.astype(np.float64), counts.astype(np.float64))


def resampled_interval(sample: Sample, *, seed: str, clustered: bool) -> JsonObject:
    """Return the 95 % interval of a sample; `seed` is the commitment hash, 64 hex digits.

    Undefined below two units, and where no unit adds more than its share.
    """
    prefix = "cluster_" if clustered else ""
    if sample.units < _MIN_UNITS:
        return undefined_interval()
    jackknife = sample.leave_one_out()
    if not np.isfinite(jackknife).all():
        return undefined_interval()
    added, of = sample.added()
    if (np.abs(added) <= _ROUNDING * of).all():
        return undefined_interval()
    if sample.units > MAX_BOOTSTRAP_UNITS:
        low, high = _normal_bounds(sample)
        return published_interval(low, high, f"{prefix}clt")
    draws = _draws(sample, seed)
    # A resample in which some criterion has no value has no statistic either.
    low, high = _bca_bounds(draws[np.isfinite(draws)], sample.observed(), jackknife)
    return published_interval(low, high, f"{prefix}bca")


def _normal_bounds(sample: Sample) -> tuple[float, float]:
    """Return score ± z · √(n / (n - 1) · Σ u²), u being what a unit adds to the score.

    Not the jackknife: a criterion that few units have would count these as if there were fewer.
    """
    n, (added, _) = sample.units, sample.added()
    half = _HALF_WIDTH * float(np.sqrt(n / (n - 1) * np.square(added).sum()))
    return sample.observed() - half, sample.observed() + half


def _draws(sample: Sample, seed: str) -> Floats:
    """Return the statistic of every resample, drawn in chunks of bounded memory."""
    n = sample.units
    bits = np.random.PCG64(int(seed, 16))
    sums, counts = sample.sums.astype(np.float64), sample.counts.astype(np.float64)
    chunk = max(1, _CELLS_IN_MEMORY // n)
    results = []
    for begin in range(0, DRAWS, chunk):
        size = min(chunk, DRAWS - begin)
        times = _times_drawn(bits, size, n)
        results.append(sample.statistic(times @ sums, times @ counts))
    return np.concatenate(results)


def _times_drawn(bits: np.random.PCG64, size: int, n: int) -> Floats:
    """Return how often each of n units is drawn in each of `size` resamples."""
    raw = bits.random_raw(size * n) >> np.uint64(32)
    # A draw is floor(n * u) for a 32-bit fraction u: the bias is below n / 2^32.
    chosen = (raw * np.uint64(n)) >> np.uint64(32)
    rows = np.repeat(np.arange(size, dtype=np.uint64), n)
    cells = (rows * np.uint64(n) + chosen).astype(np.int64)
    return np.bincount(cells, minlength=size * n).reshape(size, n).astype(np.float64)


def _bca_bounds(draws: Floats, observed: float, jackknife: Floats) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bounds.

    Plain percentiles are off where scores are skewed, as those near 0 and 1 are.
    """
    # Ties count half: scores of 0 and 1 alone give many draws that are exactly the mean.
    below = float((draws < observed).mean() + (draws <= observed).mean()) / 2
    shares = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    # On the edge the bias would be infinite; the percentiles themselves are what is left.
    if 0 < below < 1:
        deviations = jackknife.mean() - jackknife
        spread = float(np.square(deviations).sum())
        # Without either of two clusters the score can be the same, though both together differ.
        acceleration = float((deviations**3).sum()) / (6 * spread**1.5) if spread else 0.0
        bias = _NORMAL.inv_cdf(below)
        shifts = [bias + _NORMAL.inv_cdf(tail) for tail in shares]
        shares = [_NORMAL.cdf(bias + shift / (1 - acceleration * shift)) for shift in shifts]
    low, high = np.quantile(draws, shares)
    return float(low), float(high)


# Intervals of scores with a human part: normal, from what each unit adds to the score.
#
# A unit (an episode, or a cluster of them) adds to the machine mean by its scores and to the human
# mean by its ratings. Both are summed before they are squared: the rated answers are among the
# scored ones, so the parts are not independent. Source: the infinitesimal jackknife (Efron 1982),
# each part scaled so that alone it gives s² / n.


class Part(NamedTuple):
    """A mean within a score: its weight there, and what each unit adds to it, or takes from it.

    `influences` is None where fewer than two units have a value.
    """

    weight: Fraction
    influences: Floats | None


def mean_influences(sums: Floats, counts: Floats) -> Floats | None:
    """Return what each unit adds to Σ sums / Σ counts, so that Σ influence² is its variance."""
    units = int(np.count_nonzero(counts))
    if units < _MIN_UNITS:
        return None
    total = counts.sum()
    added = (sums - sums.sum() / total * counts) / total
    return np.asarray(added * math.sqrt(units / (units - 1)), dtype=np.float64)


def mixed_interval(score: Fraction | None, parts: Sequence[Part], *, clustered: bool) -> JsonObject:
    """Return the 95 % interval of a score made of `parts`.

    Undefined where there is no score, a part with weight has fewer than two units, or nothing
    varies.
    """
    counted = [part for part in parts if part.weight]
    influences = [part.influences for part in counted]
    if score is None or any(one is None for one in influences):
        return undefined_interval()
    added = sum(
        float(part.weight) * part.influences for part in counted if part.influences is not None
    )
    # fsum: the same whatever the order of episodes.
    error = math.sqrt(math.fsum(np.square(added)))
    if not error:
        return undefined_interval()
    half = _HALF_WIDTH * error
    method = "cluster_mixed_clt" if clustered else "mixed_clt"
    return published_interval(float(score) - half, float(score) + half, method)
