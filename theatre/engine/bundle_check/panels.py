"""The result of people's ratings: panels, agreement, and the human parts of the scores.

Source: docs/contract/evidence.md §9; Krippendorff 2011, "Computing Krippendorff's
Alpha-Reliability" (interval data); ADR 0069. What a unit adds to each of several means is added
up before it is squared: the parts of a score are not independent.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from theatre.engine.bundle_check.arithmetic import COMPOSITE, NANO, Plan, Z, published
from theatre.engine.bundle_check.steps import CommittedRubric
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.coin import Draws
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode

MIN_ITEMS, MIN_SCORERS = 10, 2
"""Below either, alpha would say more about chance than about people."""

MIN_UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The result of a rating: `items` by episode_id as they were drawn, and who is complete.

    `complete` maps the identity of each scorer who rated every item to item → value in
    [0, 1].
    """

    rubric: CommittedRubric
    items: Sequence[str]
    complete: Mapping[str, Mapping[str, Fraction]]

    @property
    def enough(self) -> bool:
        """Return whether so many people scored every item as were asked for."""
        return len(self.complete) >= self.rubric.minimum_scorers

    @property
    def counting(self) -> Sequence[Mapping[str, Fraction]]:
        """Return the values of the scorers who count; empty where too few did."""
        return list(self.complete.values()) if self.enough else []

    @property
    def item_values(self) -> Mapping[str, Sequence[Fraction]]:
        """Return what each item was given by those who count."""
        return {item: [values[item] for values in self.counting] for item in self.items}

    @property
    def item_means(self) -> Mapping[str, Fraction]:
        """Return the value of each item: the mean over those who count; empty without any."""
        if not self.counting:
            return {}
        return {item: _mean(values) for item, values in self.item_values.items()}

    @property
    def mean(self) -> Fraction | None:
        """Return the human mean, over the items; None where no scorer counts."""
        means = self.item_means
        return _mean(list(means.values())) if means else None

    @property
    def lateness(self) -> str:
        """Return what is said of a step that was given up."""
        rubric = self.rubric
        return (
            f"expected {rubric.minimum_scorers} people with a score for each of "
            f"{len(self.items)} items within {canonical_json(rubric.timeout_seconds)} s, "
            f"got {len(self.complete)}"
        )

    def as_document(self, machine: Fraction | None) -> JsonObject:
        """Return the rating's member of `human_scores`; `machine` is its criterion's mean."""
        return {
            "criterion_id": self.rubric.criterion_id,
            "share": self.rubric.share,
            "machine": published(machine),
            "human": published(self.mean),
            "items": len(self.items),
            "scorers": len(self.counting),
            "agreement": self._agreement(),
        }

    def _agreement(self) -> JsonObject:
        value: JsonValue = None
        reason: JsonValue = None
        if not self.counting:
            reason = "not-rated"
        elif len(self.counting) < MIN_SCORERS:
            reason = "fewer-than-2-scorers"
        elif len(self.items) < MIN_ITEMS:
            reason = "fewer-than-10-items"
        else:
            alpha = _alpha(list(self.item_values.values()))
            value, reason = published(alpha), "no-variation" if alpha is None else None
        return {"method": "krippendorff-alpha-interval", "value": value, "reason": reason}


def _alpha(items: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return 1 - observed / expected disagreement; None where all values are equal.

    Every item has a value of every person, two or more of them.
    """
    every = [value for values in items for value in values]
    expected = _squared_differences(every) / (len(every) * (len(every) - 1))
    if not expected:
        return None
    within = sum((_squared_differences(v) / (len(v) - 1) for v in items), Fraction(0))
    return 1 - within / len(every) / expected


def _squared_differences(values: Sequence[Fraction]) -> Fraction:
    """Return the sum of (a - b)² over all ordered pairs: 2 · (n · Σ a² - (Σ a)²)."""
    total = sum(values, Fraction(0))
    return 2 * (len(values) * sum((v * v for v in values), Fraction(0)) - total * total)


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


@dataclass(frozen=True, slots=True)
class Item:
    """An episode that people rate, and the unit that it belongs to."""

    episode_id: str
    unit: int


class RatedColumns:
    """What the episodes of a rated run add to each mean, and which of them people are asked about.

    A unit is an episode that was run, or a cluster. `sums` and `counts` have an entry a unit for
    each criterion, of what counts in its score, in billionths.
    """

    def __init__(self, criteria: Sequence[str], draws: Draws) -> None:
        self.sums: dict[str, list[int]] = {name: [] for name in criteria}
        self.counts: dict[str, list[int]] = {name: [] for name in criteria}
        self._draws = draws
        self._units = 0
        self._clusters: dict[str, int] = {}
        self._scored: list[tuple[bytes, str, int]] = []

    def add(
        self,
        episode: GroundTruthEpisode,
        outcome: EpisodeOutcome,
        scores: Mapping[str, float | None],
    ) -> None:
        """Take the line of one episode: what counts in a mean is a number there."""
        if outcome is EpisodeOutcome.NOT_RUN:
            return
        unit = self._unit(episode.cluster_key)
        for criterion, score in scores.items():
            if score is not None:
                self.sums[criterion][unit] += round(score * NANO)
                self.counts[criterion][unit] += 1
        if outcome is EpisodeOutcome.SCORED:
            rank = self._draws.item_rank(episode.episode_id)
            self._scored.append((rank, episode.episode_id, unit))

    def machine(self, criterion: str) -> Fraction | None:
        """Return what machines measured: the mean over what counts, None where nothing does."""
        counted = sum(self.counts[criterion])
        return Fraction(sum(self.sums[criterion]), counted * NANO) if counted else None

    def items(self, count: int) -> list[Item]:
        """Return the `count` scored episodes with the smallest draws, in their order."""
        return [Item(name, unit) for _, name, unit in heapq.nsmallest(count, self._scored)]

    def _unit(self, cluster_key: str | None) -> int:
        unit = self._units
        if cluster_key is not None:
            unit = self._clusters.setdefault(cluster_key, unit)
        if unit == self._units:
            self._units += 1
            for column in (*self.sums.values(), *self.counts.values()):
                column.append(0)
        return unit


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
        """Return `human_scores` of the aggregate; None where no people were asked."""
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
