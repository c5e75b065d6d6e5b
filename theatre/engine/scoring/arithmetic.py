"""Exact arithmetic on scores: billionths in, rationals inside, one rounding at the end.

Source: docs/contract/scoring.md §4. Nothing here depends on the order of episodes, the
platform or the Python version.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject

NANO = 1_000_000_000
"""Billionths in one: the resolution of a score."""
_PLACES = 9

# Wide enough for every double as it is written; a context that no other code changes.
_EXACTLY = Context(prec=40, rounding=ROUND_HALF_EVEN, traps=[])


def to_nano(value: object) -> int | None:
    """Return what a scorer gave as billionths, rounded half-even once.

    None for what is not a finite number in [0, 1]: the scorer or its data is at fault.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        return None
    if value in {0, 1}:
        return NANO * int(value)
    # float(): a subclass (numpy has one) may write itself otherwise.
    billionths = _EXACTLY.scaleb(Decimal(repr(float(value))), _PLACES)
    return int(_EXACTLY.to_integral_value(billionths))


def nano_to_number(nano: int) -> float:
    """Return the double nearest to `nano` billionths (int division rounds correctly)."""
    return nano / NANO


def exact(number: float) -> Fraction:
    """Return the decimal that `number` is written as, exactly: 0.1 is one tenth."""
    # float(): a subclass (numpy has one) may write itself otherwise.
    return Fraction(Decimal(repr(float(number))))


def rounded_number(value: Fraction) -> float:
    """Return `value` rounded half-even to nine places, as the nearest double."""
    return nano_to_number(round(value * NANO))


def rounded_or_none(value: Fraction | None) -> float | None:
    """Return `value` to nine places; what was not measured stays None."""
    return None if value is None else rounded_number(value)


def ratio(numerator: int, denominator: int) -> float | None:
    """Return numerator / denominator to nine places; None where there is nothing to divide."""
    return rounded_number(Fraction(numerator, denominator)) if denominator else None


def normalised_weights(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """Return `weights` scaled exactly to a sum of 1. Their sum must be positive."""
    exact_weights = [exact(weight) for weight in weights]
    total = sum(exact_weights, Fraction(0))
    return tuple(weight / total for weight in exact_weights)


# Intervals round a score. Bounds carry six places; a check accepts ± 2e-6.


LEVEL = 0.95
Z = 1.959963984540054
"""The 97.5 % point of the standard normal distribution."""


def undefined_interval() -> JsonObject:
    """Return the interval of a score that has none: fewer than two units, or no method yet."""
    return {"low": None, "high": None, "method": "undefined", "level": LEVEL}


def published_interval(low: float, high: float, method: str) -> JsonObject:
    """Return an interval as it is published: to six places, and never outside 0 … 1."""
    return {
        "low": max(0.0, round(low, 6)),
        "high": min(1.0, round(high, 6)),
        "method": method,
        "level": LEVEL,
    }


def wilson_interval(successes: int, trials: int) -> JsonObject:
    """Return the 95 % Wilson score interval for `successes` of `trials`, trials ≥ 1."""
    return published_interval(*wilson_bounds(successes / trials, trials), "wilson")


def wilson_bounds(share: float, trials: float) -> tuple[float, float]:
    """Return the 95 % Wilson score bounds of a share of `trials`, which may be an effective n.

    Source: Wilson 1927.
    """
    # Not p ± 2 standard errors: that misses its coverage at small n, and 30 of 30 right would
    # have no width at all, so that a construct would be certain of itself after thirty answers.
    shrink = 1 + Z * Z / trials
    centre = (share + Z * Z / (2 * trials)) / shrink
    half = Z * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials)) / shrink
    return centre - half, centre + half


# When too many failures end a run, decided in dataset order whatever the order of arrival.


class FailureStop:
    """Counts failures episode by episode; says after which one the run ends.

    Source: docs/contract/scoring.md: the run ends at the smallest k at which the failures among
    episodes 1…k exceed threshold * total: with repeats, of all answers that were committed.
    `threshold` None means it never stops.
    """

    def __init__(self, *, total: int, threshold: Fraction | None) -> None:
        self._limit = None if threshold is None else threshold * total
        self.fatal = None if self._limit is None else math.floor(self._limit) + 1
        """With how many failures the run ends; None where it never does."""
        self._failures = 0
        self.stopped = False

    def count(self, failures: int) -> None:
        """Take how many answers of the next episode in dataset order failed."""
        # A refusal is no failure: it has a bound of its own, at the end.
        self._failures += failures
        self.stopped = self._limit is not None and self._failures > self._limit
