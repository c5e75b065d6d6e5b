"""Intervals of scores with a human part: normal, from what each unit adds to the score.

A unit (an episode, or a cluster of them) adds to the machine mean by its scores and to the human
mean by its ratings. Both are summed before they are squared: the rated answers are among the
scored ones, so the parts are not independent. Source: the infinitesimal jackknife (Efron 1982),
each part scaled so that alone it gives s² / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.human_parts import Panel
from theatre.engine.scoring.intervals import LEVEL, undefined_interval

_MIN_UNITS = 2
_HALF_WIDTH = NormalDist().inv_cdf((1 + LEVEL) / 2)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """A mean within a score: its weight there, and what each unit adds to it, or takes from it.

    `influences` is None where fewer than two units have a value.
    """

    weight: Fraction
    influences: Floats | None


def mean_influences(sums: Floats, counts: Floats) -> Floats | None:
    """Return what each unit adds to Σ sums / Σ counts, so that Σ influence² is its variance."""
    units = int(np.count_nonzero(counts))
    if units < _MIN_UNITS:
        return None
    total = counts.sum()
    added = (sums - sums.sum() / total * counts) / total
    return np.asarray(added * math.sqrt(units / (units - 1)), dtype=np.float64)


def panel_influences(panel: Panel, rows: int) -> Floats | None:
    """Return what each of `rows` units adds to the human mean."""
    means, mean = panel.item_means, panel.mean
    units = len(set(panel.rows.values()))
    if mean is None or units < _MIN_UNITS:
        return None
    added = np.zeros(rows)
    for row, value in zip(panel.rows.values(), means, strict=True):
        # Exactly 0 for an item at the mean.
        added[row] += float((value - mean) / len(means))
    return added * math.sqrt(units / (units - 1))


def mixed_interval(score: Fraction | None, parts: Sequence[Part], *, clustered: bool) -> JsonObject:
    """Return the 95 % interval of a score made of `parts`.

    Undefined where there is no score, a part with weight has fewer than two units, or nothing
    varies.
    """
    counted = [part for part in parts if part.weight]
    influences = [part.influences for part in counted]
    if score is None or any(one is None for one in influences):
        return undefined_interval()
    added = sum(
        float(part.weight) * part.influences for part in counted if part.influences is not None
    )
    # fsum: the same whatever the order of episodes.
    error = math.sqrt(math.fsum(np.square(added)))
    if not error:
        return undefined_interval()
    half = _HALF_WIDTH * error
    return {
        "low": max(0.0, round(float(score) - half, 6)),
        "high": min(1.0, round(float(score) + half, 6)),
        "method": "cluster_mixed_clt" if clustered else "mixed_clt",
        "level": LEVEL,
    }
