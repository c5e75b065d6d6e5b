"""Where each run stands among the given ones, by what its certificate says."""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import ratio


def ranking(scores: Mapping[str, float | None]) -> JsonObject:
    """Return rank and percentile of each run that has a score; null for one that has none.

    `rank` is 1 for the highest, and shared by equal scores; `tied` counts the others with the
    same. `percentile`, 0 to 100, is the share of the *other* ranked runs that lie below, those
    that are equal counted half; null where there are no others. `of` is how many runs are ranked.
    """
    ranked = {name: score for name, score in scores.items() if score is not None}
    return {name: _place(name, ranked) if name in ranked else None for name in scores}


def _place(name: str, ranked: Mapping[str, float]) -> JsonObject:
    own = ranked[name]
    others = [score for other, score in ranked.items() if other != name]
    below, tied = sum(score < own for score in others), others.count(own)
    return {
        "rank": 1 + len(others) - below - tied,
        "tied": tied,
        "percentile": ratio(100 * (2 * below + tied), 2 * len(others)),
        "of": len(ranked),
    }
