"""What the calibration error of a perfectly calibrated construct would be, by chance alone.

With n answers the shares of right ones scatter round their probabilities, so the ECE of a
construct whose every probability is exactly right is above 0. The values are part of
`results_hash`: additions, products and square roots of doubles in a fixed order, and `fsum`, give
the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from theatre.engine.scoring.arithmetic import NANO

MAX_EXACT_VALUES = 1_000
"""Up to so many probabilities in a bin the null distribution is exact, above it is normal."""

_Z_95 = 1.6448536269514722
"""The 95 % point of the standard normal distribution."""

_PLACES = 6


@dataclass(frozen=True, slots=True)
class Deviation:
    """Mean and variance of |right answers - sum of probabilities| in one bin."""

    mean: float
    variance: float


def exact_deviation(ascending: Sequence[int]) -> Deviation:
    """Return the deviation for probabilities in billionths, by their Poisson-binomial law.

    They must ascend, so that the last places do not depend on the order of episodes.
    """
    law = np.ones(1)
    for nano in ascending:
        probability = nano / NANO
        longer = np.zeros(len(law) + 1)
        longer[:-1] = law * (1 - probability)
        longer[1:] += law * probability
        law = longer
    centre = sum(ascending) / NANO
    distances = np.abs(np.arange(len(law), dtype=np.float64) - centre)
    mean = math.fsum((law * distances).tolist())
    return Deviation(mean, max(0.0, _variance(ascending) - mean * mean))


def normal_deviation(variance: Fraction) -> Deviation:
    """Return the deviation of a sum with this variance, taken as normal."""
    mean = math.sqrt(float(variance)) * math.sqrt(2 / math.pi)
    return Deviation(mean, max(0.0, float(variance) - mean * mean))


def ece_if_calibrated(bins: Sequence[Deviation], n: int) -> tuple[float, float]:
    """Return mean and 95 % point of the ECE of n calibrated probabilities, to six places.

    The 95 % point is the larger one of two closed forms for a sum with this mean and variance:
    normal, and gamma (Wilson and Hilferty 1931), which fits a few occupied bins better.
    """
    mean = math.fsum(one.mean for one in bins)
    variance = math.fsum(one.variance for one in bins)
    upper = mean + _Z_95 * math.sqrt(variance)
    if mean:
        ninth = variance / (9 * mean * mean)
        root = 1 - ninth + _Z_95 * math.sqrt(ninth)
        upper = max(upper, mean * root * root * root)
    return round(mean / n, _PLACES), round(upper / n, _PLACES)


def _variance(nanos: Sequence[int]) -> float:
    return sum(nano * (NANO - nano) for nano in nanos) / (NANO * NANO)
