"""Shares with their intervals."""

from __future__ import annotations

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
