"""Exact arithmetic on scores: billionths in, rationals inside, one rounding at the end.

Source: docs/contract/scoring.md §4. Nothing here depends on the order of episodes, the
platform or the Python version.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

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


def ratio(numerator: int, denominator: int) -> float | None:
    """Return numerator / denominator to nine places; None where there is nothing to divide."""
    return rounded_number(Fraction(numerator, denominator)) if denominator else None


def normalised_weights(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """Return `weights` scaled exactly to a sum of 1. Their sum must be positive."""
    exact_weights = [exact(weight) for weight in weights]
    total = sum(exact_weights, Fraction(0))
    return tuple(weight / total for weight in exact_weights)
