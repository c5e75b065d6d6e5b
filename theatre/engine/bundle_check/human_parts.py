"""The human parts of the scores, and the intervals of scores that are made of several means.

Source: docs/evidence.md, "Human scores"; ADR 0069. What a unit adds to each of the means is
added up before it is squared: the parts of a score are not independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from theatre.engine.bundle_check.arithmetic import COMPOSITE, NANO, Plan, Z
from theatre.engine.bundle_check.panels import Panel, RatedColumns
from theatre.engine.canonical_json import JsonObject

MIN_UNITS = 2


@dataclass(frozen=True, slots=True)
class Mean:
    """One mean and its weight in a score: unit → sum and number of its values, at least one."""

    weight: Fraction
    values: Mapping[int, tuple[Fraction, int]]


class HumanParts:
    """What people gave before the first aggregation: means, documents, bounds of intervals."""

    def __init__(self, plan: Plan, columns: RatedColumns | None, panels: Sequence[Panel]) -> None:
        self._plan = plan
        self._columns = columns
        self._asked = [panel for panel in panels if panel.rubric.in_aggregate]
        self._shared = {
            panel.rubric.criterion_id: panel
            for panel in self._asked
            if panel.rubric.share is not None
        }

    @property
    def means(self) -> dict[str, Fraction | None]:
        """Return the human mean of each criterion that people have a share in."""
        return {name: self._shared[name].mean for name in self._plan.human}

    def as_document(self) -> JsonObject | None:
        """Return `human_scores` of the aggregate; None where nobody was asked."""
        columns = self._columns
        if not self._asked or columns is None:
            return None
        return {
            panel.rubric.step_id: panel.as_document(
                None
                if panel.rubric.criterion_id is None
                else columns.machine(panel.rubric.criterion_id)
            )
            for panel in self._asked
        }

    def bounds(self, name: str) -> tuple[float | None, float | None]:
        """Return the interval round a mixed score, (None, None) where a mean tells nothing."""
        columns = self._columns
        if columns is None:
            return None, None
        drawn = columns.items(max((panel.rubric.items for panel in self._asked), default=0))
        units = {item.episode_id: item.unit for item in drawn}
        means = {one: self._means(one, columns, units) for one in self._plan.ids}
        if name != COMPOSITE:
            return mixed_bounds(self._score(name, columns), means[name])
        total = sum(self._plan.shares)
        weights = {
            one: Fraction(share, total)
            for one, share in zip(self._plan.ids, self._plan.shares, strict=True)
        }
        score = self._plan.weighted({one: self._score(one, columns) for one in self._plan.ids})
        parts = [
            Mean(weights[one] * mean.weight, mean.values) for one in means for mean in means[one]
        ]
        return mixed_bounds(score, parts)

    def _score(self, name: str, columns: RatedColumns) -> Fraction | None:
        machine, share = columns.machine(name), self._plan.human.get(name)
        if share is None:
            return machine
        human = self._shared[name].mean
        if human is None or (machine is None and share < 1):
            return None
        return (1 - share) * (machine or Fraction(0)) + share * human

    def _means(self, name: str, columns: RatedColumns, units: Mapping[str, int]) -> list[Mean]:
        """Return the means that a score is made of; `units` has the unit of each item."""
        share = self._plan.human.get(name, Fraction(0))
        pairs = zip(columns.sums[name], columns.counts[name], strict=True)
        measured = {
            unit: (Fraction(total, NANO), count)
            for unit, (total, count) in enumerate(pairs)
            if count
        }
        machine = Mean(1 - share, measured)
        if name not in self._shared:
            return [machine]
        rated: dict[int, tuple[Fraction, int]] = {}
        for item, value in self._shared[name].item_means.items():
            total, count = rated.get(units[item], (Fraction(0), 0))
            rated[units[item]] = total + value, count + 1
        return [machine, Mean(share, rated)]


def mixed_bounds(
    score: Fraction | None, means: Sequence[Mean]
) -> tuple[float | None, float | None]:
    """Return score ± z · √variance within 0 and 1, or nothing where one of the means is alone."""
    weighed = [mean for mean in means if mean.weight]
    if score is None or any(len(mean.values) < MIN_UNITS for mean in weighed):
        return None, None
    variance = _variance(weighed)
    if not variance:
        return None, None
    middle, error = float(score), Z * math.sqrt(variance)
    return round(max(0.0, middle - error), 6), round(min(1.0, middle + error), 6)


def _variance(means: Sequence[Mean]) -> float:
    """Return Σ u² over the units; exactly 0 where every u is.

    A u is a sum of fractions times √(n / (n - 1)): those of one n are added exactly, so that
    means which cancel each other leave nothing.
    """
    by_size: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for mean in means:
        total = sum((total for total, _ in mean.values.values()), Fraction(0))
        count = sum(count for _, count in mean.values.values())
        middle, weight = total / count, mean.weight / count
        added = by_size[len(mean.values)]
        for unit, (of_unit, values) in mean.values.items():
            added[unit] += weight * (of_unit - middle * values)
    whole: dict[int, float] = defaultdict(float)
    for size, added in by_size.items():
        for unit, value in added.items():
            whole[unit] += float(value) * math.sqrt(size / (size - 1))
    return math.fsum(value * value for value in whole.values())
