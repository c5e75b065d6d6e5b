"""Human ratings as a template commits them: what is asked, of how many answers, on which scale.

Source: docs/contract/template.md §2 and §5.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import exact, rounded_or_none
from theatre.engine.scoring.bootstrap import Floats

# How far people agree: Krippendorff's alpha for interval data, in exact rationals.
#
# Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).


METHOD = "krippendorff-alpha-interval"
MIN_ITEMS = 10
"""Below so many items the value would say more about the draw than about the people."""

_MIN_SCORERS = 2
_MIN_UNITS = 2


def agreement(items: Sequence[Sequence[Fraction]]) -> JsonObject:
    """Return the member `agreement`; `items` has the values of each item, a value a scorer."""
    scorers = max(map(len, items), default=0)
    value = reason = None
    if not scorers:
        reason = "not-rated"
    elif scorers < _MIN_SCORERS:
        reason = f"fewer-than-{_MIN_SCORERS}-scorers"
    elif len(items) < MIN_ITEMS:
        reason = f"fewer-than-{MIN_ITEMS}-items"
    elif (value := interval_alpha(items)) is None:
        reason = "no-variation"
    return {"method": METHOD, "value": rounded_or_none(value), "reason": reason}


def interval_alpha(items: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return 1 - observed / expected disagreement, at most 1; None where no value varies.

    Items with fewer than two values can be paired with nothing and are left out.
    """
    # A value without a partner disagrees with no one.
    pairable = [values for values in items if len(values) >= _MIN_SCORERS]
    every = [value for values in pairable for value in values]
    expected = _squared_differences(every) / max(1, len(every) - 1)
    if not expected:
        return None
    within = (_squared_differences(values) / (len(values) - 1) for values in pairable)
    return 1 - sum(within, Fraction(0)) / expected


def _squared_differences(values: Sequence[Fraction]) -> Fraction:
    """Return the sum of (a - b)² over all ordered pairs."""
    total = sum(values, Fraction(0))
    squares = sum((value * value for value in values), Fraction(0))
    return 2 * (len(values) * squares - total * total)


RUBRIC = "hitl_rubric"
_AGGREGATION = "aggregation"


class CommittedRating(NamedTuple):
    """One `hitl_rubric` step with its entry in `hitl_steps`.

    `low` and `high` are the ends of the scale, `share` (0 < share ≤ 1) the human part of the
    criterion's score: None where the rating changes no score. `in_aggregate` is false for a step
    behind the first aggregation.
    """

    step_id: str
    rubric: str
    low: Fraction
    high: Fraction
    labels: Mapping[str, str]
    scorer_must_not_be_author: bool = True
    minimum_scorers: int = 1
    criterion_id: str | None = None
    share: Fraction | None = None
    items: int = 1
    in_aggregate: bool = True

    def on_scale(self, score: float) -> bool:
        """Return whether a finite number lies on the scale."""
        return self.low <= exact(score) <= self.high

    def scaled(self, score: float) -> Fraction:
        """Return a score on the scale mapped linearly from [low, high] to [0, 1], exactly."""
        return (exact(score) - self.low) / (self.high - self.low)


def committed_ratings(document: JsonObject) -> tuple[CommittedRating, ...]:
    """Return the ratings of a validated template, in the order of its programme."""
    programme = cast("list[JsonObject]", document.get("resolution_programme", []))
    listed = cast("list[JsonObject]", document.get("hitl_steps", []))
    entries = {entry["step_id"]: entry for entry in listed}
    types = [step["type"] for step in programme]
    end = types.index(_AGGREGATION) if _AGGREGATION in types else len(types)
    return tuple(
        _rating(entries[step["step_id"]], in_aggregate=index < end)
        for index, step in enumerate(programme)
        if step["type"] == RUBRIC and step["step_id"] in entries
    )


def _rating(entry: JsonObject, *, in_aggregate: bool) -> CommittedRating:
    scale = cast("JsonObject", entry["scoring_scale"])
    separation = cast("JsonObject", entry.get("identity_separation", {}))
    share = cast("float | None", entry.get("share"))
    return CommittedRating(
        step_id=cast("str", entry["step_id"]),
        rubric=cast("str", entry["rubric"]),
        low=exact(cast("float", scale["min"])),
        high=exact(cast("float", scale["max"])),
        labels=cast("dict[str, str]", scale.get("labels", {})),
        scorer_must_not_be_author=cast("bool", separation.get("scorer_must_not_be_author", True)),
        minimum_scorers=int(cast("float", separation.get("minimum_scorers", 1))),
        criterion_id=cast("str | None", entry.get("criterion_id")),
        share=None if share is None else exact(share),
        items=int(cast("float", entry.get("items", 1))),
        in_aggregate=in_aggregate,
    )


# What people's scores make of a criterion: (1 - share) · machine mean + share · human mean.
#
# Source: docs/contract/template.md §2. All of it is exact, so it belongs to `results_hash`.


PanelScores: TypeAlias = Mapping[str, Mapping[str, Fraction]]
"""Scorer → episode → score in [0, 1]; every scorer rated every item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A committed rating, its items in the order of the draw, and the scores that count.

    `rows` says in which unit each item lies. Without scores no rating counts (yet).
    """

    rating: CommittedRating
    rows: Mapping[str, int]
    scores: PanelScores = field(default_factory=dict)

    @property
    def item_values(self) -> list[list[Fraction]]:
        """Return the values of each item, a value a scorer."""
        return [[values[item] for values in self.scores.values()] for item in self.rows]

    @property
    def item_means(self) -> list[Fraction]:
        """Return each item's mean over the scorers; empty without ratings."""
        return [sum(values, Fraction(0)) / len(values) for values in self.item_values if values]

    @property
    def mean(self) -> Fraction | None:
        """Return the human mean, the mean of the items' means; None without ratings."""
        means = self.item_means
        return sum(means, Fraction(0)) / len(means) if means else None

    def influences(self, units: int) -> Floats | None:
        """Return what each of `units` units adds to the human mean; None below two rated units."""
        means, mean = self.item_means, self.mean
        rated = len(set(self.rows.values()))
        if mean is None or rated < _MIN_UNITS:
            return None
        added = np.zeros(units)
        for row, value in zip(self.rows.values(), means, strict=True):
            # In rationals, so that it is exactly 0 for an item at the mean.
            added[row] += float((value - mean) / len(means))
        return added * math.sqrt(rated / (rated - 1))

    def as_document(self, machine: Fraction | None) -> JsonObject:
        """Return the entry of `human_scores`; `machine` is the mean of the step's criterion."""
        rating = self.rating
        return {
            "criterion_id": rating.criterion_id,
            "share": None if rating.share is None else float(rating.share),
            "machine": rounded_or_none(machine),
            "human": rounded_or_none(self.mean),
            "items": len(self.rows),
            "scorers": len(self.scores),
            "agreement": agreement(self.item_values),
        }


class HumanParts:
    """The human parts of all criteria that have one."""

    def __init__(self, panels: Sequence[Panel] = ()) -> None:
        self._panels = tuple(panels)
        self._by_criterion = {
            panel.rating.criterion_id: panel for panel in panels if panel.rating.share is not None
        }

    def __bool__(self) -> bool:
        return bool(self._by_criterion)

    def labelling(self) -> Iterator[tuple[str, Panel]]:
        """Yield criterion and panel of each rating of a criterion without a share in its score."""
        for panel in self._panels:
            if panel.rating.criterion_id is not None and panel.rating.share is None:
                yield panel.rating.criterion_id, panel

    def panel_of(self, criterion: str) -> Panel | None:
        """Return whose scores are a part of `criterion`; None where it has no human part."""
        return self._by_criterion.get(criterion)

    def share_of(self, criterion: str) -> Fraction:
        """Return the human share of `criterion`; 0 where it has none."""
        panel = self.panel_of(criterion)
        share = None if panel is None else panel.rating.share
        return share or Fraction(0)

    def blend(self, criterion: str, machine: Fraction | None) -> Fraction | None:
        """Return the score with both parts; None where a part that counts was not measured."""
        panel, share = self.panel_of(criterion), self.share_of(criterion)
        if panel is None:
            return machine
        # A part that is missing is no 0, and the other part must not stand in for it.
        if panel.mean is None or (machine is None and share < 1):
            return None
        return (1 - share) * (machine or Fraction(0)) + share * panel.mean

    def as_document(self, machine: Mapping[str, Fraction | None]) -> JsonObject | None:
        """Return the member `human_scores`: both parts by step; null without such a step."""
        if not self._panels:
            return None
        return {
            panel.rating.step_id: panel.as_document(machine.get(panel.rating.criterion_id or ""))
            for panel in self._panels
        }


NO_HUMAN_PARTS = HumanParts()


# Which episodes people are asked to rate: drawn by the coin, among the scored ones.


class ItemDraw:
    """Keeps the `size` episodes of the smallest ranks. Memory grows with `size` only."""

    def __init__(self, rank: Callable[[str], bytes], size: int) -> None:
        self._rank = rank
        self._size = size
        # A heap of the smallest ranks, negated: the largest one stands first.
        self._kept: list[tuple[int, str, int]] = []

    def add(self, episode_id: str, row: int) -> None:
        """Take a scored episode and the row of its unit."""
        if not self._size:
            return
        entry = (-int.from_bytes(self._rank(episode_id), "big"), episode_id, row)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def draw(self, count: int) -> dict[str, int]:
        """Return the first `count` episodes → their rows, in ascending order of their ranks."""
        ranked = sorted(self._kept, reverse=True)
        return {episode_id: row for _, episode_id, row in ranked[:count]}
