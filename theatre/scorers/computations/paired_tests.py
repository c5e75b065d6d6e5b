"""How far two constructs stand apart that were put to the same episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theatre.engine.canonical_json import JsonObject

_DECIMALS = 6


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> JsonObject:
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
    return round(wins / (len(positives) * len(negatives)), _DECIMALS)
