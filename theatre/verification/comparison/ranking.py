"""Ranks runs on the changes that count for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import ratio, rounded_number


def ranking(scores: Mapping[str, Mapping[str, Fraction]]) -> JsonObject:
    """Return how the runs rank by their means on one measure; `scores` are by run and change.

    Over `changes` that count for every run, so that no oracle gains by declining hard changes;
    without one, `runs` is empty. In it: `mean`; `rank`, 1 for the highest, which equal means share;
    `tied`, how many others have the same; `percentile`, 0 to 100, the share of the *other* runs
    that lie below, with equal ones counted half, null without others; `of`, how many are ranked.
    """
    common = set.intersection(*(set(counted) for counted in scores.values()))
    means = {
        name: sum((counted[change] for change in common), Fraction(0)) / len(common)
        for name, counted in scores.items()
        if common
    }
    return {"changes": len(common), "runs": {name: _place(name, means) for name in means}}


def _place(name: str, means: Mapping[str, Fraction]) -> JsonObject:
    own = means[name]
    others = [mean for other, mean in means.items() if other != name]
    below, tied = sum(mean < own for mean in others), others.count(own)
    return {
        "mean": rounded_number(own),
        "rank": 1 + len(others) - below - tied,
        "tied": tied,
        "percentile": ratio(100 * (2 * below + tied), 2 * len(others)),
        "of": len(means),
    }
