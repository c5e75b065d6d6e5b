"""Intervals round a score. Bounds carry six places; a check accepts ± 2e-6."""

from __future__ import annotations

import math

from theatre.engine.canonical_json import JsonObject

LEVEL = 0.95
_Z = 1.959963984540054
"""The 97.5 % point of the standard normal distribution."""


def undefined_interval() -> JsonObject:
    """Return the interval of a score that has none: fewer than two units, or no method yet."""
    return {"low": None, "high": None, "method": "undefined", "level": LEVEL}


def wilson_interval(successes: int, trials: int) -> JsonObject:
    """Return the 95 % Wilson score interval for `successes` of `trials`, trials ≥ 1.

    Source: Wilson 1927; holds its coverage at small n where p ± 2 standard errors does not.
    """
    share = successes / trials
    shrink = 1 + _Z * _Z / trials
    centre = (share + _Z * _Z / (2 * trials)) / shrink
    half = _Z * math.sqrt(share * (1 - share) / trials + _Z * _Z / (4 * trials * trials)) / shrink
    return {
        "low": max(0.0, round(centre - half, 6)),
        "high": min(1.0, round(centre + half, 6)),
        "method": "wilson",
        "level": LEVEL,
    }
