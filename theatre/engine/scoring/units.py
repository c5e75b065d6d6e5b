"""The units that an interval resamples, gathered while episodes stream past.

A unit is an episode, or all episodes of one cluster where `cluster_key` is committed. Nine bytes
a unit and criterion: the only part of an aggregate that grows with the number of episodes.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, Scored, Verdict
from theatre.engine.scoring.arithmetic import NANO
from theatre.engine.scoring.bootstrap import Sample, resampled_interval
from theatre.engine.scoring.intervals import undefined_interval
from theatre.engine.scoring.mixed_interval import Floats, mean_influences
from theatre.engine.scoring.provider import CriterionPlan


class ResampledUnits:
    """Sums and counts of each criterion, a row a unit, in the order of their first episode."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self._sums = [array("q") for _ in plans]
        self._counts = [array("q") for _ in plans]
        self._row_of_cluster: dict[str, int] = {}

    @property
    def clustered(self) -> bool:
        """Return whether any episode belongs to a cluster."""
        return bool(self._row_of_cluster)

    @property
    def rows(self) -> int:
        """Return the number of units."""
        return len(self._counts[0])

    def add(self, scores: Mapping[str, CriterionResult], cluster_key: str | None) -> int:
        """Take the results of one episode that was run; return the row of its unit."""
        row = self._row(cluster_key)
        for column, plan in enumerate(self._plans):
            result = scores[plan.criterion_id]
            if isinstance(result, Scored):
                self._sums[column][row] += result.nano
            self._counts[column][row] += isinstance(result, Scored) or result is Verdict.MISSING
        return row

    def influences(self, column: int) -> Floats | None:
        """Return what each unit adds to one criterion's mean; None below two units."""
        sums = np.array(self._sums[column], dtype=np.float64)
        added = mean_influences(sums, np.array(self._counts[column], dtype=np.float64))
        return None if added is None else added / NANO

    def criterion_interval(self, column: int, *, seed: str) -> JsonObject:
        """Return the resampled interval of one criterion's mean."""
        return self._interval([column], [1.0], seed)

    def composite_interval(self, *, seed: str) -> JsonObject:
        """Return the interval of the composite: whole units are drawn, criteria stay together."""
        if any(not any(counts) for counts in self._counts):
            return undefined_interval()
        columns = list(range(len(self._plans)))
        return self._interval(columns, [float(plan.weight) for plan in self._plans], seed)

    def _row(self, cluster_key: str | None) -> int:
        row = self.rows
        if cluster_key is not None:
            row = self._row_of_cluster.setdefault(cluster_key, row)
        if row == self.rows:
            for column in (*self._sums, *self._counts):
                column.append(0)
        return row

    def _interval(self, columns: list[int], weights: list[float], seed: str) -> JsonObject:
        sums = np.array([self._sums[column] for column in columns], dtype=np.int64).T
        counts = np.array([self._counts[column] for column in columns], dtype=np.int64).T
        counted = counts.any(axis=1)
        # Sorted, so that the draws depend on what was scored and not on the order of episodes.
        order = np.lexsort(np.hstack([sums[counted], counts[counted]]).T)
        sample = Sample(sums[counted][order], counts[counted][order], np.array(weights))
        return resampled_interval(sample, seed=seed, clustered=self.clustered)
