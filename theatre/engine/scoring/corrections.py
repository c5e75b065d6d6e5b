"""Rates that a judge gave, corrected for the errors that are known of it.

A judge that errs moves a rate towards the middle: of 10 % true claims, one that is right nine times
in ten calls 18 % true. Two corrections, with intervals that hold the luck of the items and that of
the labelled ones: `corrected_rate` from control items whose answers are known, `powered_rate` from
labels on a random part of the run's own items. When which, and what the intervals hold in
simulated runs: docs/statistics.md. Only sums, products, quotients and square roots of doubles are
used, and sums that do not depend on the order of items.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import (
    Z,
    exact,
    published_interval,
    rounded_number,
    undefined_interval,
    wilson_bounds,
)
from theatre.engine.scoring.differences import Tally, effective_pairs

FEWEST_ITEMS = 100
"""Below so many items, controls of either sort, or labels, nothing is corrected."""
LEAST_SKILL = Fraction(13, 10)
"""Below this sum of sensitivity and specificity nothing is corrected; a coin has 1."""

SIDES = ("true", "false")
"""The sorts of control items, in an output of `judge_controls`."""
_FEWEST_UNITS = 2

FEW_ITEMS = "fewer than 100 items"
FEW_TRUE_CONTROLS = "fewer than 100 true controls"
FEW_FALSE_CONTROLS = "fewer than 100 false controls"
FEW_LABELS = "fewer than 100 labelled items"
NO_OTHERS = "no items without a label"
TOO_WEAK = "sensitivity + specificity below 1.3"
OUTSIDE = "the judged rate is one that the judge's known errors cannot give"
NO_ERRORS = "no known errors of the measure"
NO_INTERVAL = "the score has no interval"
PEOPLE = "people have a share in the score"
CLUSTERED = "its episodes share clusters"


class JudgeErrors(NamedTuple):
    """How a judge did on control items: of the true ones it supported, of the false ones refused.

    The first share is its sensitivity, the second its specificity.
    """

    supported: Tally
    refused: Tally


class LabelledItems(NamedTuple):
    """What people said of answers that the coin drew in a run, next to what its judge said.

    `labels` and `judged` are about these answers, in one order, `others` is what the judge said of
    all other answers; from 0 to 1. `scorers` people each labelled all that were drawn.
    """

    step_id: str
    scorers: int
    labels: Sequence[float]
    judged: Sequence[float]
    others: Sequence[float]
    clustered: bool

    @property
    def correct(self) -> bool:
        """Return whether there are enough of them to correct a score."""
        return len(self.labels) >= FEWEST_ITEMS and not self.clustered

    def as_document(self) -> JsonObject:
        """Return what a certificate says of them."""
        return {"step_id": self.step_id, "items": len(self.labels), "scorers": self.scorers}


def judge_errors(controls: JsonObject) -> JudgeErrors | None:
    """Return the errors that a criterion's part of an output of `judge_controls` counts.

    As of so many controls as would vary as much between changes. None where there are no usable
    controls of either sort.
    """
    counted = cast("dict[str, dict[str, int]]", controls["independent"])
    true, false = (Tally(counted[side]["right"], counted[side]["asked"]) for side in SIDES)
    return JudgeErrors(supported=true, refused=false) if true.pairs and false.pairs else None


def effective_tally(units: Mapping[str, Tally]) -> Tally:
    """Return as many independent pairs as would vary as much between units; none for one unit."""
    if len(units) < _FEWEST_UNITS:
        return Tally(0, 0)
    pairs = int(effective_pairs(units))
    hits = sum(unit.hits for unit in units.values())
    return Tally(round(Fraction(pairs * hits, sum(one.pairs for one in units.values()))), pairs)


def corrected_rate(rate: Fraction, items: int, trials: float, errors: JudgeErrors) -> JsonObject:
    """Return the share of true items behind the share `rate` that a judge supported.

    The value is that of Rogan and Gladen 1978, never outside 0 … 1; the interval that of Lang and
    Reiczigel 2014 ("Confidence limits for prevalence of disease adjusted for estimated sensitivity
    and specificity"). `trials` is how many independent items would tell as much as the `items`, of
    which some may share clusters. Null with its `reason` where there are too few items or controls,
    where the judge knows too little, and where no rate from 0 to 1 fits: then it judged the
    controls otherwise than the items.
    """
    supported, refused = errors.supported, errors.refused
    for counted, reason in (
        (items, FEW_ITEMS),
        (supported.pairs, FEW_TRUE_CONTROLS),
        (refused.pairs, FEW_FALSE_CONTROLS),
    ):
        if counted < FEWEST_ITEMS:
            return _null(reason)
    sensitivity = Fraction(supported.hits, supported.pairs)
    specificity = Fraction(refused.hits, refused.pairs)
    if sensitivity + specificity < LEAST_SKILL:
        return _null(TOO_WEAK)
    value = (rate + specificity - 1) / (sensitivity + specificity - 1)
    low, high = _lang_reiczigel(rate, trials, errors)
    if high < 0 or low > 1:
        return _null(OUTSIDE)
    return _found(float(value), low, high, "lang_reiczigel")


def _lang_reiczigel(rate: Fraction, trials: float, errors: JudgeErrors) -> tuple[float, float]:
    square = Z * Z
    n = trials + square
    p = (float(rate) * trials + square / 2) / n
    n_true, n_false = errors.supported.pairs + 2, errors.refused.pairs + 2
    se, sp = (errors.supported.hits + 1) / n_true, (errors.refused.hits + 1) / n_false
    skill = se + sp - 1
    centre = (p + sp - 1) / skill
    of_true, of_false = se * (1 - se) / n_true, sp * (1 - sp) / n_false
    shift = 2 * square * (centre * of_true - (1 - centre) * of_false)
    variance = p * (1 - p) / n + centre * centre * of_true + (1 - centre) * (1 - centre) * of_false
    half = Z * math.sqrt(variance) / skill
    return centre + shift - half, centre + shift + half


def corrected_score(
    aggregate: JsonObject, criterion: str, errors: JudgeErrors | None, *, source: str
) -> JsonObject:
    """Return a criterion's score corrected for the errors of its measure, as certificates have it.

    The mean over the episodes that were answered is corrected, and a failed one counts 0 as in the
    score. How many independent episodes would tell as much follows from the score's own interval,
    so that clusters count. `source` says where the errors were seen: `controls` of the run itself,
    or the measure's `qualification`. Null with the reason as `corrected_rate`.
    """
    results: dict[str, Any] = aggregate
    counts, interval = results["score_counts"][criterion], results["score_intervals"][criterion]
    items = counts["scored"]
    reason = None
    if errors is None:
        reason = NO_ERRORS
    elif any(
        one["criterion_id"] == criterion and one["share"] is not None
        for one in (results["human_scores"] or {}).values()
    ):
        reason = PEOPLE
    elif interval["low"] is None or not items:
        reason = NO_INTERVAL
    found = _null(reason or "")
    if errors is not None and reason is None:
        share = Fraction(items, items + counts["missing"])
        rate = exact(results["answered_only"][criterion])
        half = (interval["high"] - interval["low"]) / 2 / float(share)
        found = corrected_rate(rate, items, _trials(float(rate), half, items), errors)
        if found["value"] is not None:
            found |= _scaled(found, float(share))
    return {"raw": results["scores"][criterion], "n": items, "errors_from": source, **found}


def labelled_score(aggregate: JsonObject, criterion: str, items: LabelledItems) -> JsonObject:
    """Return a criterion's score corrected by people's labels on a random part of its answers.

    The mean over the episodes that were answered is corrected, by `powered_rate`; a failed one
    counts 0 as in the score. Null with the reason as there, and where episodes share clusters.
    """
    results: dict[str, Any] = aggregate
    counts = results["score_counts"][criterion]
    if items.clustered:
        found = _null(CLUSTERED)
    else:
        found = powered_rate(items.labels, items.judged, items.others)
    if found["value"] is not None:
        found |= _scaled(found, counts["scored"] / (counts["scored"] + counts["missing"]))
    return {
        "raw": results["scores"][criterion],
        "n": counts["scored"],
        "errors_from": "people",
        **found,
        "labels": items.as_document(),
    }


def _trials(rate: float, half: float, items: int) -> float:
    """Return of how many independent items a share would vary as an interval says."""
    if rate in (0, 1) or not half:
        return float(items)
    return min(rate * (1 - rate) * Z * Z / (half * half), float(items))


def _scaled(found: JsonObject, share: float) -> JsonObject:
    ends = {name: cast("float", found[name]) * share for name in ("value", "low", "high")}
    return {"value": round(ends["value"], 9), **{n: round(ends[n], 6) for n in ("low", "high")}}


def powered_rate(
    labels: Sequence[float], judged: Sequence[float], others: Sequence[float]
) -> JsonObject:
    """Return the mean label of all items of a run of which a random part has labels.

    `judged` is what the judge said of the items with `labels`, in their order, `others` what it
    said of the rest; all from 0 to 1. Prediction-powered inference with the weight of the judge
    that has the least variance, so one that knows nothing is left out (Angelopoulos, Duchi and
    Zrnic 2023, "PPI++"). The interval is Wilson's, for as many labels as would vary as much: a
    normal one is too short near 0 and 1.
    """
    n, n_others = len(labels), len(others)
    if n < FEWEST_ITEMS:
        return _null(FEW_LABELS)
    if not n_others:
        return _null(NO_OTHERS)
    weight = _weight_of_judge(labels, judged, others)
    value = _mean(labels) + weight * (_mean(others) - _mean(judged))
    rest = [label - weight * said for label, said in zip(labels, judged, strict=True)]
    variance = _variance(rest) / n + weight * weight * _variance([*judged, *others]) / n_others
    value = min(1.0, max(0.0, value))
    # On an edge the labels themselves are what is left. All labels would tell no more than n + N.
    trials = min(value * (1 - value) / variance, n + n_others) if variance else float(n)
    low, high = wilson_bounds(value, trials or float(n))
    return _found(value, low, high, "ppi_wilson")


def _weight_of_judge(
    labels: Sequence[float], judged: Sequence[float], others: Sequence[float]
) -> float:
    spread = _variance([*judged, *others])
    if not spread:
        return 0.0
    label, said = _mean(labels), _mean(judged)
    products = ((one - label) * (two - said) for one, two in zip(labels, judged, strict=True))
    shared = math.fsum(products) / (len(labels) - 1)
    return min(1.0, max(0.0, shared / ((1 + len(labels) / len(others)) * spread)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    squares: Iterable[float] = ((value - mean) * (value - mean) for value in values)
    return math.fsum(squares) / (len(values) - 1)


def _found(value: float, low: float, high: float, method: str) -> JsonObject:
    clipped = Fraction(min(1.0, max(0.0, value)))
    interval = published_interval(low, high, method)
    return {"value": rounded_number(clipped)} | interval | {"reason": None}


def _null(reason: str) -> JsonObject:
    return {"value": None} | undefined_interval() | {"reason": reason}
