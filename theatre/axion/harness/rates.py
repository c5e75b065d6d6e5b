"""Shares with their intervals, and how far two agents stand apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theatre.axion.common.hashing import Document
from theatre.engine.scoring.intervals import wilson_interval

DECIMALS = 6


def rate(count: int, of: int) -> Document:
    """Return a share with its Wilson 95 % interval; all null where there is nothing to share."""
    if not of:
        return {"value": None, "count": 0, "of": 0, "low": None, "high": None}
    interval = wilson_interval(count, of)
    return {
        "value": round(count / of, DECIMALS),
        "count": count,
        "of": of,
        "low": interval["low"],
        "high": interval["high"],
    }


def difference(one: Document, other: Document) -> Document:
    """Return the difference of two independent rates with Newcombe's hybrid-score interval.

    Source: Newcombe 1998, method 10. Both rates need a value.
    """
    apart = one["value"] - other["value"]
    down = math.hypot(one["value"] - one["low"], other["high"] - other["value"])
    up = math.hypot(one["high"] - one["value"], other["value"] - other["low"])
    return {
        "value": round(apart, DECIMALS),
        "low": round(apart - down, DECIMALS),
        "high": round(apart + up, DECIMALS),
        "method": "newcombe",
    }


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> Document:
    """Return the exact two-sided McNemar test over paired passes."""
    first = sum(one and not other for one, other in pairs)
    second = sum(other and not one for one, other in pairs)
    odd = first + second
    tail = sum(math.comb(odd, k) for k in range(min(first, second) + 1)) if odd else 1
    return {
        "only_first": first,
        "only_second": second,
        "p_value": min(1.0, 2 * tail / 2**odd) if odd else 1.0,
    }


def auroc(negatives: Sequence[float], positives: Sequence[float]) -> float | None:
    """Return the chance that a positive scores above a negative, ties half; None without both."""
    if not negatives or not positives:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in positives for other in negatives)
    return round(wins / (len(positives) * len(negatives)), DECIMALS)
