"""Exact running sums of scores: by criterion, and by set of episodes.

Source: docs/contract/scoring.md §1 and §4.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import CriterionResult, Scored, Verdict
from theatre.engine.scoring.arithmetic import NANO, rounded_or_none, undefined_interval
from theatre.engine.scoring.bootstrap import (
    Floats,
    Integers,
    Sample,
    mean_influences,
    resampled_interval,
)
from theatre.engine.scoring.provider import CriterionPlan
from theatre.engine.scoring.ratings import NO_HUMAN_PARTS, HumanParts

COMPOSITE = "composite_score"
"""The composite's key among the criteria; no criterion may have this name."""

_MISSING = Verdict.MISSING
_MIN_UNITS = 2


@dataclass(slots=True)
class CriterionTally:
    """Exact running sums of one criterion over the episodes that were run."""

    nano_sum: int = 0
    nano_squares: int = 0
    ones: int = 0
    graded: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: CriterionResult, times: int = 1) -> None:
        """Count a result that came so many times."""
        if isinstance(result, Verdict):
            self.counts[result.value] += times
            return
        self.counts["scored"] += times
        self.nano_sum += times * result.nano
        self.nano_squares += times * result.nano * result.nano
        self.ones += times * (result.nano == NANO)
        self.graded += times * (result.nano not in {0, NANO})

    def mean_over(self, *counted: str) -> Fraction | None:
        """Return the mean in units of 1 over the named kinds, a gap counting as 0."""
        units = sum(self.counts[kind] for kind in counted)
        return Fraction(self.nano_sum, units * NANO) if units else None

    @property
    def mean(self) -> Fraction | None:
        """Return the criterion's score: failures count against it, refusals not at all."""
        return self.mean_over("scored", "missing")

    @property
    def variance(self) -> Fraction:
        """Return that of the mean of so many single episodes, in units of 1; 0 below two."""
        n = self.counts["scored"] + self.counts["missing"]
        squares = n * self.nano_squares - self.nano_sum * self.nano_sum
        return Fraction(squares, n * n * (n - 1) * NANO * NANO) if n >= _MIN_UNITS else Fraction(0)


def weigh(plans: Sequence[CriterionPlan], scores: Sequence[Fraction | None]) -> Fraction | None:
    """Return the weighted mean of criterion scores in committed order; None if one is None."""
    # No weight is shared out to the others: a criterion without a value must not become a bonus.
    weighted = [
        plan.weight * score for plan, score in zip(plans, scores, strict=True) if score is not None
    ]
    return sum(weighted, Fraction(0)) if len(weighted) == len(plans) else None


class EpisodeGroup:
    """The tallies of one set of episodes: all of them, the train part, or the holdout."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self.episodes = 0
        self.tallies = {plan.criterion_id: CriterionTally() for plan in plans}

    def add(self, scores: Mapping[str, CriterionResult], times: int = 1) -> None:
        """Count so many episodes that were run, with the same results."""
        self.episodes += times
        for criterion, tally in self.tallies.items():
            tally.add(scores[criterion], times)

    def means(self, *counted: str, human: HumanParts = NO_HUMAN_PARTS) -> dict[str, JsonValue]:
        """Return each criterion's mean over the named kinds, to nine places; null without any.

        `human` parts are mixed in where a criterion has one.
        """
        return {
            name: rounded_or_none(human.blend(name, tally.mean_over(*counted)))
            for name, tally in self.tallies.items()
        }

    def weighted_mean(self, human: HumanParts = NO_HUMAN_PARTS) -> Fraction | None:
        """Return the weighted mean of the unrounded criterion scores; None if one is None."""
        scores = [human.blend(name, tally.mean) for name, tally in self.tallies.items()]
        return weigh(self._plans, scores)

    def composite(self, human: HumanParts = NO_HUMAN_PARTS) -> float | None:
        """Return the weighted mean to nine places."""
        return rounded_or_none(self.weighted_mean(human))

    def summary(self) -> JsonObject:
        """Return what `holdout_scores` says about a part."""
        return {
            "episodes": self.episodes,
            "scores": self.means("scored", "missing"),
            COMPOSITE: self.composite(),
        }


# The units that an interval resamples, gathered while episodes stream past.
#
# A unit is an episode, or all episodes of one cluster where `cluster_key` is committed. Sixteen
# bytes a unit and criterion: the only part of an aggregate that grows with the number of episodes.


class ResampledUnits:
    """Sums and counts of each criterion, a row a unit, in the order of their first episode."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self._width = 2 * len(plans)
        self._cells = array("q")
        """Of each unit the sum and the count of the first criterion, then of the next ones."""
        self._row_of_cluster: dict[str, int] = {}

    @property
    def clustered(self) -> bool:
        """Return whether any episode belongs to a cluster."""
        return bool(self._row_of_cluster)

    @property
    def rows(self) -> int:
        """Return the number of units."""
        return len(self._cells) // self._width

    def add(self, scores: Mapping[str, CriterionResult], cluster_key: str | None) -> int:
        """Take the results of one episode that was run; return the row of its unit."""
        cells: list[int] = []
        for plan in self._plans:
            result = scores[plan.criterion_id]
            cells += (result.nano, 1) if isinstance(result, Scored) else (0, result is _MISSING)
        row = end = self.rows
        if cluster_key is not None:
            row = self._row_of_cluster.setdefault(cluster_key, end)
        if row == end:
            self._cells.extend(cells)
        else:
            for at, cell in enumerate(cells, row * self._width):
                self._cells[at] += cell
        return row

    def means(self, column: int, rows: Iterable[int]) -> dict[int, float]:
        """Return the score of each of these units that has one on a criterion, from 0 to 1."""
        sums, counts = (cells.tolist() for cells in self.column(column))
        return {row: sums[row] / (counts[row] * NANO) for row in rows if counts[row]}

    def influences(self, column: int) -> Floats | None:
        """Return what each unit adds to one criterion's mean; None below two units."""
        added = mean_influences(*(cells.astype(np.float64) for cells in self.column(column)))
        return None if added is None else added / NANO

    def column(self, column: int) -> tuple[Integers, Integers]:
        """Return the sum in billionths and the count of each unit on one criterion."""
        sums, counts = self._sums_and_counts()
        return sums[:, column], counts[:, column]

    def _sums_and_counts(self) -> tuple[Integers, Integers]:
        cells = np.frombuffer(self._cells, dtype=np.int64).reshape(-1, self._width)
        return cells[:, ::2], cells[:, 1::2]

    def criterion_interval(self, column: int, *, seed: str) -> JsonObject:
        """Return the resampled interval of one criterion's mean."""
        return self._interval([column], [1.0], seed)

    def composite_interval(self, *, seed: str) -> JsonObject:
        """Return the interval of the composite: whole units are drawn, criteria stay together."""
        if not self._sums_and_counts()[1].any(axis=0).all():
            return undefined_interval()
        columns = list(range(len(self._plans)))
        return self._interval(columns, [float(plan.weight) for plan in self._plans], seed)

    def _interval(self, columns: list[int], weights: list[float], seed: str) -> JsonObject:
        # Column by column in memory: sums of floating-point numbers depend on it.
        sums, counts = (
            np.ascontiguousarray(cells.T[columns]).T for cells in self._sums_and_counts()
        )
        counted = counts.any(axis=1)
        # Sorted, so that the draws depend on what was scored and not on the order of episodes.
        order = np.lexsort(np.hstack([sums[counted], counts[counted]]).T)
        sample = Sample(sums[counted][order], counts[counted][order], np.array(weights))
        return resampled_interval(sample, seed=seed, clustered=self.clustered)
