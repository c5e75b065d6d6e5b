"""How well stated probabilities fit what came of them: Brier score, its parts, ECE, the curve.

Source: docs/contract/scoring.md §5; Brier 1950; Murphy 1973 with the
within-bin terms of Stephenson, Coelho and Jolliffe 2008. Exact, and never made up from accuracy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, Scored
from theatre.engine.scoring.arithmetic import NANO, ratio, rounded_number, to_nano

# What the calibration error of a perfectly calibrated construct would be, by chance alone.
#
# With n answers the shares of right ones scatter round their probabilities, so the ECE of a
# construct whose every probability is exactly right is above 0. The values are part of
# `results_hash`: additions, products and square roots of doubles in a fixed order, and `fsum`,
# give the same on every machine.


MAX_EXACT_VALUES = 1_000
"""Up to so many probabilities in a bin the null distribution is exact, above it is normal."""

_Z_95 = 1.6448536269514722
"""The 95 % point of the standard normal distribution."""

_PLACES = 6


class Deviation(NamedTuple):
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
    variance = sum(nano * (NANO - nano) for nano in ascending) / (NANO * NANO)
    return Deviation(mean, max(0.0, variance - mean * mean))


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


CONFIDENCE = "confidence"
"""Where an answer states the probability that its label is right."""

BINS = 10
MIN_FOR_ECE = 100
TOO_FEW = "fewer-than-100-probabilities"


class Probability(NamedTuple):
    """A stated probability in billionths: 0 … 1,000,000,000."""

    nano: int


def stated_probability(confidence: object) -> Probability | None:
    """Return what an answer has at `confidence`, half-even to nine places, if it is in [0, 1]."""
    nano = to_nano(confidence)
    return None if nano is None else Probability(nano)


@dataclass(slots=True)
class Bin:
    """Exact sums over the probabilities of one bin, in billionths, and whether they were right."""

    count: int = 0
    right: int = 0
    total: int = 0
    squares: int = 0
    total_right: int = 0
    values: array[int] = field(default_factory=lambda: array("q"))
    """Every value, as long as they are few enough for the exact null distribution."""

    def add(self, nano: int, *, right: bool) -> None:
        """Count one probability."""
        self.count += 1
        self.right += right
        self.total += nano
        self.squares += nano * nano
        self.total_right += nano * right
        if self.count <= MAX_EXACT_VALUES:
            self.values.append(nano)

    @property
    def deviation(self) -> Deviation:
        """Return how far right answers and probabilities lie apart were each exactly right."""
        if self.count <= MAX_EXACT_VALUES:
            return exact_deviation(sorted(self.values))
        return normal_deviation(Fraction(self.total * NANO - self.squares, NANO * NANO))


class Decomposition(NamedTuple):
    """The parts of a Brier score: reliability - resolution + uncertainty + within_bin, exactly."""

    reliability: Fraction
    resolution: Fraction
    uncertainty: Fraction
    within_bin: Fraction

    def as_document(self) -> JsonObject:
        """Return the parts to nine places, each rounded for itself."""
        return {
            "reliability": rounded_number(self.reliability),
            "resolution": rounded_number(self.resolution),
            "uncertainty": rounded_number(self.uncertainty),
            "within_bin": rounded_number(self.within_bin),
        }


def brier_score(bins: Sequence[Bin]) -> Fraction:
    """Return the mean squared distance of probability and outcome; there must be one."""
    squared = sum(b.squares - 2 * NANO * b.total_right + NANO * NANO * b.right for b in bins)
    return Fraction(squared, sum(b.count for b in bins) * NANO * NANO)


def decomposition(bins: Sequence[Bin]) -> Decomposition:
    """Return the parts of the Brier score of `bins`; there must be a probability."""
    n = sum(b.count for b in bins)
    base_rate = Fraction(sum(b.right for b in bins), n)
    reliability = resolution = within = Fraction(0)
    for b in bins:
        if not b.count:
            continue
        mean, share = Fraction(b.total, b.count * NANO), Fraction(b.right, b.count)
        reliability += b.count * (mean - share) ** 2
        resolution += b.count * (share - base_rate) ** 2
        variance = Fraction(b.squares, NANO * NANO) - b.count * mean**2
        covariance = Fraction(b.total_right, NANO) - b.count * mean * share
        within += variance - 2 * covariance
    return Decomposition(
        reliability=reliability / n,
        resolution=resolution / n,
        uncertainty=base_rate * (1 - base_rate),
        within_bin=within / n,
    )


def expected_calibration_error(bins: Sequence[Bin]) -> Fraction:
    """Return Σ |right answers - sum of probabilities| / n; there must be a probability."""
    apart = sum(abs(b.right * NANO - b.total) for b in bins)
    return Fraction(apart, sum(b.count for b in bins) * NANO)


class CalibrationTally:
    """Gathers the probabilities that go with one criterion, in memory that does not grow."""

    def __init__(self, criterion: str) -> None:
        self._criterion = criterion
        self._bins = [Bin() for _ in range(BINS)]
        self._without_probability = 0
        self._without_verdict = 0

    def add(self, scores: Mapping[str, CriterionResult], probability: Probability | None) -> None:
        """Take one episode: only where the criterion was scored is there anything to be right."""
        result = scores[self._criterion]
        if not isinstance(result, Scored):
            return
        # Half right is no event that a probability could be about.
        if result.nano not in {0, NANO}:
            self._without_verdict += 1
        elif probability is None:
            self._without_probability += 1
        else:
            # The last bin has both of its ends: certainty belongs somewhere.
            place = min(probability.nano * BINS // NANO, BINS - 1)
            self._bins[place].add(probability.nano, right=result.nano == NANO)

    def as_document(self) -> JsonObject:
        """Return the member `calibration` of the aggregate (docs/statistics.md)."""
        bins = self._bins
        n = sum(b.count for b in bins)
        return {
            "criterion": self._criterion,
            "probabilities": n,
            "without_probability": self._without_probability,
            "without_verdict": self._without_verdict,
            "brier_score": rounded_number(brier_score(bins)) if n else None,
            "decomposition": decomposition(bins).as_document() if n else None,
            # Of few answers the ECE is mostly chance, whatever the construct is worth.
            "ece": _ece(bins, n) if n >= MIN_FOR_ECE else None,
            "ece_reason": None if n >= MIN_FOR_ECE else TOO_FEW,
            "bins": [
                {
                    "low": place / BINS,
                    "high": (place + 1) / BINS,
                    "count": one.count,
                    "mean_probability": ratio(one.total, one.count * NANO),
                    "share_right": ratio(one.right, one.count),
                }
                for place, one in enumerate(bins)
            ],
        }


def _ece(bins: Sequence[Bin], n: int) -> JsonObject:
    expected, upper = ece_if_calibrated([b.deviation for b in bins], n)
    return {
        "value": rounded_number(expected_calibration_error(bins)),
        "bins": BINS,
        "scheme": "equal-width",
        "expected_if_calibrated": expected,
        "upper_95_if_calibrated": upper,
    }
