"""Intervals round what pairs show: a share of pairs, and the mean difference of two verdicts.

Pairs that share a clean episode are no independent draws: the unit is the clean episode. Only sums,
products, quotients and square roots of doubles are used, which round alike on every platform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.intervals import LEVEL

_Z = 1.959963984540054
_Z_POWER = 0.8416212335729143
"""The 80 % point of the standard normal distribution."""
_PLACES = 6
_FEWEST_UNITS = 2


@dataclass(frozen=True, slots=True)
class Tally:
    """The result of the pairs of one unit: `hits` of `pairs`, pairs ≥ 1."""

    hits: int
    pairs: int


def share_of_pairs(units: Mapping[str, Tally]) -> JsonObject:
    """Return the share of hits among all pairs, with its 95 % interval.

    `wilson` where each unit has one pair. Else `cluster_wilson`: Wilson's interval for as many
    independent pairs as would vary as much as these do between units (Kish 1965, "Survey
    Sampling", on the effective sample size; Dean and Pagano 2015 on Wilson's interval with it),
    and for one a unit where nothing varies. `undefined`, with null bounds, below two units.
    """
    hits = sum(unit.hits for unit in units.values())
    pairs = sum(unit.pairs for unit in units.values())
    if not pairs:
        return _undefined(None)
    share = Fraction(hits, pairs)
    if len(units) < _FEWEST_UNITS:
        return _undefined(rounded_number(share))
    is_single = all(unit.pairs == 1 for unit in units.values())
    trials = float(pairs) if is_single else _effective(units, share, pairs)
    low, high = _wilson(float(share), trials)
    return {
        "value": rounded_number(share),
        "low": low,
        "high": high,
        "method": "wilson" if is_single else "cluster_wilson",
        "level": LEVEL,
    }


def _effective(units: Mapping[str, Tally], share: Fraction, pairs: int) -> float:
    """Return how many independent pairs would tell as much: at most as many as there are."""
    squares = sum(
        ((unit.hits - share * unit.pairs) ** 2 for unit in units.values()), start=Fraction(0)
    )
    if share in (0, 1):
        return float(len(units))
    if not squares:
        return float(pairs)
    variance = squares * Fraction(len(units), len(units) - 1) / pairs**2
    return float(min(share * (1 - share) / variance, Fraction(pairs)))


def _wilson(share: float, trials: float) -> tuple[float, float]:
    shrink = 1 + _Z * _Z / trials
    centre = (share + _Z * _Z / (2 * trials)) / shrink
    spread = share * (1 - share) / trials + _Z * _Z / (4 * trials * trials)
    half = _Z * math.sqrt(spread) / shrink
    return max(0.0, round(centre - half, _PLACES)), min(1.0, round(centre + half, _PLACES))


def mean_difference(units: Mapping[str, Sequence[Fraction | int]]) -> JsonObject:
    """Return the mean over units of their mean difference, each from -1 to 1, with its interval.

    The adjusted Wald interval for paired proportions (Bonett and Price 2012): two units more,
    one for either side, so that it has a width where all differences are equal. For differences
    of scores, which lie between, it is wider than it need be. `undefined`, with null bounds,
    below two units.
    """
    means = [Fraction(sum(unit, start=Fraction(0)), len(unit)) for unit in units.values() if unit]
    if not means:
        return _undefined(None)
    value = rounded_number(sum(means, start=Fraction(0)) / len(means))
    if len(means) < _FEWEST_UNITS:
        return _undefined(value)
    centre, error = _adjust(means)
    half = _Z * error
    return {
        "value": value,
        "low": max(-1.0, round(float(centre) - half, _PLACES)),
        "high": min(1.0, round(float(centre) + half, _PLACES)),
        "method": "bonett_price",
        "level": LEVEL,
    }


def detectable_difference(units: Mapping[str, Sequence[Fraction | int]]) -> float | None:
    """Return the mean difference that as many units would tell from 0 four times in five.

    At the level and with the standard error of `mean_difference`, so for differences that vary as
    these do. None below two units, and where it would have to be more than 1.
    """
    means = [Fraction(sum(unit, start=Fraction(0)), len(unit)) for unit in units.values() if unit]
    if len(means) < _FEWEST_UNITS:
        return None
    _, error = _adjust(means)
    needed = round((_Z + _Z_POWER) * error, _PLACES)
    return needed if needed <= 1 else None


def _adjust(means: Sequence[Fraction]) -> tuple[Fraction, float]:
    """Return the centre and standard error with one unit more for either side."""
    count = len(means) + 2
    centre = sum(means, start=Fraction(0)) / count
    square = (sum((mean**2 for mean in means), start=Fraction(0)) + 2) / count
    return centre, math.sqrt(float((square - centre**2) / count))


def _undefined(value: float | None) -> JsonObject:
    return {"value": value, "low": None, "high": None, "method": "undefined", "level": LEVEL}
