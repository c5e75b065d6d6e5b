"""How far people agree: Krippendorff's alpha for interval data, in exact rationals.

Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import rounded_number

METHOD = "krippendorff-alpha-interval"
MIN_ITEMS = 10
"""Below so many items the value would say more about the draw than about the people."""

_MIN_SCORERS = 2


def agreement(items: Sequence[Sequence[Fraction]]) -> JsonObject:
    """Return the member `agreement`; `items` has the values of each item, a value a scorer."""
    value, reason = _measure(items)
    return {
        "method": METHOD,
        "value": None if value is None else rounded_number(value),
        "reason": reason,
    }


def _measure(items: Sequence[Sequence[Fraction]]) -> tuple[Fraction | None, str | None]:
    scorers = max(map(len, items), default=0)
    if not scorers:
        return None, "not-rated"
    if scorers < _MIN_SCORERS:
        return None, f"fewer-than-{_MIN_SCORERS}-scorers"
    if len(items) < MIN_ITEMS:
        return None, f"fewer-than-{MIN_ITEMS}-items"
    alpha = interval_alpha(items)
    return alpha, "no-variation" if alpha is None else None


def interval_alpha(items: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return 1 - observed / expected disagreement, at most 1; None where no value varies.

    Items with fewer than two values can be paired with nothing and are left out.
    """
    pairable = [values for values in items if len(values) >= _MIN_SCORERS]
    every = [value for values in pairable for value in values]
    expected = _squared_differences(every) / max(1, len(every) - 1)
    if not expected:
        return None
    within = (_squared_differences(values) / (len(values) - 1) for values in pairable)
    return 1 - sum(within, Fraction(0)) / expected


def _squared_differences(values: Sequence[Fraction]) -> Fraction:
    """Return the sum of (a - b)² over all ordered pairs."""
    total = sum(values, Fraction(0))
    squares = sum((value * value for value in values), Fraction(0))
    return 2 * (len(values) * squares - total * total)
