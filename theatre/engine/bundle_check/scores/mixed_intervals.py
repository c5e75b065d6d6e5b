"""The interval of a score that is made of several means over the same units.

Source: docs/evidence.md, "Human scores"; ADR 0069. What a unit adds to each of the means is
added up before it is squared: the parts of a score are not independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject

Z = 1.959963984540054
LEVEL = 0.95
MIN_UNITS = 2
_PLACES = 6


@dataclass(frozen=True, slots=True)
class Mean:
    """One mean and its weight in a score: unit → sum and number of its values, at least one."""

    weight: Fraction
    values: Mapping[int, tuple[Fraction, int]]


def mixed_interval(score: Fraction | None, means: Sequence[Mean], *, clustered: bool) -> JsonObject:
    """Return the interval round `score`, None of it where one of its means tells nothing."""
    weighed = [mean for mean in means if mean.weight]
    if score is None or any(len(mean.values) < MIN_UNITS for mean in weighed):
        return _interval(None, None, "undefined")
    variance = _variance(weighed)
    if not variance:
        return _interval(None, None, "undefined")
    middle, error = float(score), Z * math.sqrt(variance)
    low, high = max(0.0, middle - error), min(1.0, middle + error)
    method = "cluster_mixed_clt" if clustered else "mixed_clt"
    return _interval(round(low, _PLACES), round(high, _PLACES), method)


def _variance(means: Sequence[Mean]) -> float:
    """Return Σ u² over the units; exactly 0 where every u is.

    A u is a sum of fractions times √(n / (n - 1)): those of one n are added exactly, so that
    means which cancel each other leave nothing.
    """
    by_size: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for mean in means:
        total = sum((total for total, _ in mean.values.values()), Fraction(0))
        count = sum(count for _, count in mean.values.values())
        middle, weight = total / count, mean.weight / count
        added = by_size[len(mean.values)]
        for unit, (of_unit, values) in mean.values.items():
            added[unit] += weight * (of_unit - middle * values)
    whole: dict[int, float] = defaultdict(float)
    for size, added in by_size.items():
        for unit, value in added.items():
            whole[unit] += float(value) * math.sqrt(size / (size - 1))
    return math.fsum(value * value for value in whole.values())


def _interval(low: float | None, high: float | None, method: str) -> JsonObject:
    return {"low": low, "high": high, "method": method, "level": LEVEL}
