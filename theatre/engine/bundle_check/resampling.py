"""What the arithmetic asks its caller for: bounds by resampling, and what chance alone would show.

Source: docs/statistics.md, "Intervals" and "Calibration". Of the engine's `scoring` the check
shares the bootstrap alone: its draws are specified number by number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt

from theatre.engine.bundle_check.arithmetic import COMPOSITE, NANO, Tally
from theatre.engine.scoring.bootstrap import Sample, resampled_interval

BINS = 10
MAX_EXACT = 1000
"""Up to so many probabilities in a bin their law is exact, above it is taken as normal."""

Z_95 = 1.6448536269514722


def resampled_bounds(tally: Tally, name: str) -> tuple[float | None, float | None]:
    """Return the bounds of a criterion's interval, or the composite's, by the bootstrap.

    Whole units are drawn, and they are sorted: no draw depends on the order of episodes.
    """
    ids = tally.plan.ids
    columns = list(range(len(ids))) if name == COMPOSITE else [ids.index(name)]
    rows = [
        [*(unit[c][0] for c in columns), *(unit[c][1] for c in columns)]
        for unit, times in tally.units()
        for _ in range(times)
    ]
    units = np.array(rows, dtype=np.int64)
    sums, counts = units[:, : len(columns)], units[:, len(columns) :]
    counted = counts.any(axis=1)
    order = np.lexsort(units[counted].T)
    shares = tally.plan.shares if name == COMPOSITE else [1]
    weights = np.array([float(Fraction(share, sum(shares))) for share in shares])
    sample = Sample(sums[counted][order], counts[counted][order], weights)
    interval = resampled_interval(
        sample, seed=tally.commitment_hash, clustered=bool(tally.clusters)
    )
    return cast("float | None", interval["low"]), cast("float | None", interval["high"])


def error_by_chance(probabilities: Mapping[int, int]) -> tuple[float, float]:
    """Return mean and 95 % point of the ECE if each probability (in billionths) were right."""
    bins: list[list[int]] = [[] for _ in range(BINS)]
    for nano in sorted(probabilities):
        bins[min(nano * BINS // NANO, BINS - 1)] += [nano] * probabilities[nano]
    deviations = [_deviation(values) for values in bins]
    number = sum(len(values) for values in bins)
    mean = math.fsum(one for one, _ in deviations)
    variance = math.fsum(other for _, other in deviations)
    upper = mean + Z_95 * math.sqrt(variance)
    if mean:
        ninth = variance / (9 * mean * mean)
        root = 1 - ninth + Z_95 * math.sqrt(ninth)
        upper = max(upper, mean * root * root * root)
    return round(mean / number, 6), round(upper / number, 6)


def _deviation(ascending: list[int]) -> tuple[float, float]:
    """Return mean and variance of |right answers - sum of probabilities| in one bin."""
    variance = Fraction(sum(nano * (NANO - nano) for nano in ascending), NANO * NANO)
    if len(ascending) > MAX_EXACT:
        mean = math.sqrt(float(variance)) * math.sqrt(2 / math.pi)
        return mean, max(0.0, float(variance) - mean * mean)
    law: npt.NDArray[np.float64] = np.ones(1)
    for nano in ascending:
        probability = nano / NANO
        law = np.append(law * (1 - probability), 0.0) + np.append(0.0, law * probability)
    distances = np.abs(np.arange(len(law), dtype=np.float64) - sum(ascending) / NANO)
    mean = math.fsum((law * distances).tolist())
    return mean, max(0.0, float(variance) - mean * mean)
