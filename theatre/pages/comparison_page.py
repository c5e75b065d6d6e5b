"""The page that compares certificates of one template: differences, and no rank that is not borne.

The values are those of `theatre.engine.comparison.compare_bundles`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from theatre.engine.scoring import COMPOSITE
from theatre.pages.rendering import render_file, render_page
from theatre.pages.served import TIERS
from theatre.pages.wording import FINDINGS, REASONS, explain_code
from theatre.svg import strip

_ALPHA = 0.05


class Difference(NamedTuple):
    """How far two runs stand apart on one measure, and what that says in words."""

    measure: str
    episodes: str
    value: float | None
    low: float | None
    high: float | None
    p_holm: float | None
    ahead: str | None
    """Who scored higher, where the data tell them apart; else None."""


class Pair(NamedTuple):
    """Two runs with their differences; `is_paired` where both got the same episodes."""

    first: str
    second: str
    is_paired: bool
    differences: Sequence[Difference]


def render_comparison(
    comparison: Mapping[str, Any], links: Mapping[str, str], worths: Mapping[str, str]
) -> str:
    """Return the page as a service serves it.

    By the names of the runs, `links` are the pages of their certificates, and `worths` how these
    stand now.
    """
    return render_page("comparison.html", _values(comparison, links, worths))


def render_comparison_file(comparison: Mapping[str, Any]) -> str:
    """Return the page as one file."""
    return render_file("comparison.html", _values(comparison, {}, {}))


def render_choice(chosen: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Return the page on which a reader chooses what to compare a certificate with."""
    values = {"chosen": chosen, "others": others, "tiers": TIERS, "reasons": REASONS}
    return render_page("choose.html", values)


def _values(
    comparison: Mapping[str, Any], links: Mapping[str, str], worths: Mapping[str, str]
) -> dict[str, Any]:
    runs = comparison["runs"]
    measures = [*next(iter(runs.values()))["scores"]]
    if len(measures) == 2 and COMPOSITE in measures:  # noqa: PLR2004 - of one criterion, the same
        measures.remove(COMPOSITE)
    return {
        "comparison": comparison,
        "links": links,
        "worths": worths,
        "measures": measures,
        "words": {name: _named(name) for name in measures},
        "strips": {name: {one: _strip(run, one) for one in measures} for name, run in runs.items()},
        "known": {name: {one: _known(run, one) for one in measures} for name, run in runs.items()},
        "pairs": [_pair(one) for one in comparison["pairs"]],
        "by_words": set(comparison["scorer_kinds"].values()) == {"textual"},
    }


def _named(measure: str) -> str:
    return "Overall" if measure == COMPOSITE else measure


def _known(run: Mapping[str, Any], measure: str) -> list[str]:
    """Return the findings on one criterion in words: how much its score is worth."""
    found = [explain_code(code, FINDINGS) for code in run["findings"]]
    return [words.replace("{}", measure) for words, part in found if part == measure]


def _strip(run: Mapping[str, Any], measure: str) -> str:
    interval = run["score_intervals"][measure]
    return strip(run["scores"][measure], interval["low"], interval["high"], None)


def _pair(pair: Mapping[str, Any]) -> Pair:
    first, second = pair["first"], pair["second"]
    found = [
        _difference(measure, one, first=first, second=second)
        for measure, one in pair["measures"].items()
    ]
    return Pair(first, second, pair["is_paired"], found)


def _difference(measure: str, one: Mapping[str, Any], *, first: str, second: str) -> Difference:
    difference, counted = one["difference"], one["counted"]
    value, low, high = difference["value"], difference["low"], difference["high"]
    p_holm = None if one["test"] is None else one["p_holm"]
    # Both must say so: the interval, and the test after all the others are counted.
    is_apart = low is not None and high is not None and not low <= 0 <= high
    is_tested = p_holm is not None and p_holm < _ALPHA
    ahead = (first if value > 0 else second) if is_apart and is_tested and value else None
    shown = str(counted["first"])
    if not one["is_paired"]:
        shown += f" and {counted['second']}"
    return Difference(_named(measure), shown, value, low, high, p_holm, ahead)
