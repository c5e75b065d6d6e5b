"""The aggregate of a rated run: the human parts, mixed into what machines measured.

Source: docs/evidence.md, "Human scores". Written from that page: it shares nothing with the code
that mixed them in the first place but the arithmetic of single numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from theatre.engine.bundle_check.human_scores import Panels
from theatre.engine.bundle_check.panels import (
    ANSWERED,
    REFUSALS_AS_ZERO,
    SCORE,
    Column,
    Panel,
    RatedColumns,
    nine_places,
)
from theatre.engine.bundle_check.results import ResultsHash
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring import COMPOSITE, exact

Z = 1.959963984540054
LEVEL = 0.95
MIN_UNITS = 2
_PLACES = 6


@dataclass(frozen=True, slots=True)
class Mean:
    """One mean and its weight in a score: unit → sum and number of its values, at least one."""

    weight: Fraction
    values: Mapping[int, tuple[Fraction, int]]


def mixed_interval(score: Fraction | None, means: Sequence[Mean], *, clustered: bool) -> JsonObject:
    """Return the interval round `score`, None of it where one of its means tells nothing."""
    weighed = [mean for mean in means if mean.weight]
    if score is None or any(len(mean.values) < MIN_UNITS for mean in weighed):
        return _interval(None, None, "undefined")
    variance = _variance(weighed)
    if not variance:
        return _interval(None, None, "undefined")
    middle, error = float(score), Z * math.sqrt(variance)
    low, high = max(0.0, middle - error), min(1.0, middle + error)
    method = "cluster_mixed_clt" if clustered else "mixed_clt"
    return _interval(round(low, _PLACES), round(high, _PLACES), method)


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


def _interval(low: float | None, high: float | None, method: str) -> JsonObject:
    return {"low": low, "high": high, "method": method, "level": LEVEL}


_VIEWS = {"scores": SCORE, "answered_only": ANSWERED, "refusals_as_zero": REFUSALS_AS_ZERO}

_Bounds = tuple[Fraction, Fraction]


def with_human_parts(
    machine: JsonObject,
    criteria: JsonObject,
    columns: RatedColumns,
    panels: Panels,
    lines: ResultsHash,
) -> JsonObject:
    """Return the aggregate of a run, `machine` being what it is without its ratings.

    `criteria` are the committed ones as a certificate shows them, `lines` has taken those of
    `scores/per_episode.jsonl`.
    """
    asked = [panel for panel in panels.values() if panel.rubric.in_aggregate]
    if not asked:
        return machine
    mixture = _Mixture(criteria, columns, asked)
    whole = machine | mixture.views(machine) | {"human_scores": mixture.human_scores()}
    return lines.within(whole)


@dataclass(frozen=True, slots=True)
class _Criterion:
    """One criterion: its exact weight, what machines measured, and its human part, if any."""

    name: str
    weight: Fraction
    column: Column
    panel: Panel | None

    @property
    def share(self) -> Fraction:
        share = None if self.panel is None else self.panel.rubric.share
        return Fraction(0) if share is None else exact(share)

    def mixed(self, machine: Fraction | None) -> Fraction | None:
        """Return a score that has `machine` as its machine mean; None where a part is missing."""
        if self.panel is None:
            return machine
        human, share = self.panel.mean, self.share
        if human is None or (machine is None and share < 1):
            return None
        return (1 - share) * (machine or Fraction(0)) + share * human

    def bounds(self) -> _Bounds | None:
        measured = self.column.bounds()
        low, high = (self.mixed(end) for end in measured or (None, None))
        return None if low is None or high is None else (low, high)

    def means(self, units: Mapping[str, int]) -> list[Mean]:
        """Return the means that the score is made of; `units` has the unit of each item."""
        column = self.column
        machine = Mean(
            1 - self.share,
            {
                unit: (Fraction(total, 10**9), count)
                for unit, (total, count) in enumerate(zip(column.sums, column.counts, strict=True))
                if count
            },
        )
        if self.panel is None:
            return [machine]
        values: dict[int, tuple[Fraction, int]] = {}
        for item, value in self.panel.item_means.items():
            total, count = values.get(units[item], (Fraction(0), 0))
            values[units[item]] = total + value, count + 1
        return [machine, Mean(self.share, values)]


class _Mixture:
    """The criteria of one run and their human parts."""

    def __init__(self, criteria: JsonObject, columns: RatedColumns, asked: Sequence[Panel]) -> None:
        shared = {p.rubric.criterion_id: p for p in asked if p.rubric.share is not None}
        self._asked = asked
        self._columns = columns
        self._criteria = [
            _Criterion(name, weight, columns.by_criterion[name], shared.get(name))
            for name, weight in _weights(criteria).items()
        ]
        self._any_share = bool(shared)

    def human_scores(self) -> JsonObject:
        machine = {name: column.mean() for name, column in self._columns.by_criterion.items()}
        return {
            panel.rubric.step_id: panel.as_document(
                None if panel.rubric.criterion_id is None else machine[panel.rubric.criterion_id]
            )
            for panel in self._asked
        }

    def views(self, machine: JsonObject) -> JsonObject:
        """Return every member that a share moves; none where nothing has a share."""
        if not self._any_share:
            return {}
        views: JsonObject = {
            view: {
                one.name: nine_places(one.mixed(one.column.mean(kinds))) for one in self._criteria
            }
            for view, kinds in _VIEWS.items()
        }
        composite = self._weighted([one.mixed(one.column.mean()) for one in self._criteria])
        return views | {
            COMPOSITE: nine_places(composite),
            "worst_case_bounds": self._worst_case(),
            "score_intervals": self._intervals(
                cast("JsonObject", machine["score_intervals"]), composite
            ),
        }

    def _worst_case(self) -> JsonObject:
        bounds = [one.bounds() for one in self._criteria]
        low, high = (
            self._weighted([None if one is None else one[end] for one in bounds]) for end in (0, 1)
        )
        names = [one.name for one in self._criteria]
        found = dict(zip(names, bounds, strict=True))
        whole = None if low is None or high is None else (low, high)
        return {name: _published(one) for name, one in (found | {COMPOSITE: whole}).items()}

    def _intervals(self, machine: JsonObject, composite: Fraction | None) -> JsonObject:
        drawn = self._columns.items(max(panel.rubric.items for panel in self._asked))
        units = {item.episode_id: item.unit for item in drawn}
        clustered = self._columns.clustered
        intervals = dict(machine)
        parts: list[Mean] = []
        for one in self._criteria:
            means = one.means(units)
            if one.panel is not None:
                score = one.mixed(one.column.mean())
                intervals[one.name] = mixed_interval(score, means, clustered=clustered)
            parts += [Mean(one.weight * mean.weight, mean.values) for mean in means]
        return intervals | {COMPOSITE: mixed_interval(composite, parts, clustered=clustered)}

    def _weighted(self, values: Sequence[Fraction | None]) -> Fraction | None:
        """Return the weighted mean; None if a criterion has no value."""
        total = Fraction(0)
        for one, value in zip(self._criteria, values, strict=True):
            if value is None:
                return None
            total += one.weight * value
        return total


def _weights(criteria: JsonObject) -> dict[str, Fraction]:
    """Return criterion → weight, exact and with a sum of 1; equal ones where none are committed."""
    ids = cast("Sequence[str]", criteria["criteria_ids"])
    committed = cast("Mapping[str, float]", criteria["weights"])
    weights = {name: exact(committed[name]) if committed else Fraction(1) for name in ids}
    total = sum(weights.values(), Fraction(0))
    return {name: weight / total for name, weight in weights.items()}


def _published(bounds: _Bounds | None) -> JsonValue:
    return (
        None if bounds is None else {"low": nine_places(bounds[0]), "high": nine_places(bounds[1])}
    )
