"""How many episodes, and answers to each, an interval of a wanted width needs: by simulation.

Source: docs/statistics.md, "Repeats". A pilot run gives the variance between and within episodes;
runs of other sizes are drawn from its episodes. Widths are of the 95 % interval over episode
means (`items_like_these`), from its lower to its upper end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from theatre.engine.errors import PilotError
from theatre.engine.scoring.arithmetic import Z
from theatre.engine.scoring.bootstrap import Floats

RUNS = 200
"""Simulated runs of each size; they are drawn one behind the other from one stream."""
ASSURANCE = 0.8
"""In this share of the simulated runs the interval is no wider than was wanted."""
MOST_ITEMS = 20_000
_MIN_ITEMS = 2
_STEP = 1.02


class Pilot(NamedTuple):
    """What a pilot run shows of one score, 0 to 1.

    `effects` are episode means, drawn towards their mean until they vary as the episodes
    themselves do; `residuals` what answers to one episode add to that, None where each was asked
    once, so that `effects` are single answers and `within` is not known.
    """

    effects: Floats
    residuals: Floats | None
    between: float
    within: float | None

    @classmethod
    def of(cls, answers: Sequence[Sequence[float]]) -> Pilot:
        """Read the answers of a pilot, an episode a row, each asked equally often.

        Raises PilotError for fewer than two episodes, and for scores that do not vary at all.
        """
        if len(answers) < _MIN_ITEMS:
            raise PilotError(f"expected a pilot of two scored episodes or more, got {len(answers)}")
        table = np.array(answers, dtype=np.float64)
        k = table.shape[1]
        if np.isin(table, (0, 1)).all():
            # Two right and two wrong: else thirty right answers would show that nothing varies.
            # Source: Agresti and Coull 1998.
            table = np.vstack([table, np.ones((2, k)), np.zeros((2, k))])
        means = table.mean(axis=1)
        spread = float(means.var(ddof=1))
        if not spread and np.ptp(table) == 0:
            raise PilotError("expected a pilot whose scores vary, got one value alone")
        if k == 1:
            return cls(means, None, spread, None)
        within = float(table.var(axis=1, ddof=1).mean())
        between = max(0.0, spread - within / k)
        shrunk = math.sqrt(between / spread) if spread else 0.0
        residuals = (table - means[:, None]).ravel() * math.sqrt(k / (k - 1))
        return cls(means.mean() + (means - means.mean()) * shrunk, residuals, between, within)

    def variance(self, repeats: int) -> float:
        """Return the variance of an episode's mean of so many answers."""
        return self.between + (self.within or 0.0) / repeats


class PlannedSize(NamedTuple):
    """The fewest episodes for a width at so many repeats; `width` is the simulated median."""

    repeats: int
    items: int
    width: float

    @property
    def answers(self) -> int:
        """Return how many answers that are."""
        return self.repeats * self.items


class WidthPlan:
    """Finds sizes for one width; the same pilot and seed give the same sizes."""

    def __init__(self, pilot: Pilot, width: float, *, seed: int) -> None:
        self._pilot = pilot
        self._width = width
        self._bits = np.random.PCG64(seed)

    def sizes(self, most_repeats: int) -> list[PlannedSize]:
        """Return the fewest episodes for 1 … `most_repeats` answers each.

        Of a pilot that asked once only for one: how much answers vary is not known. PilotError
        where more than MOST_ITEMS would be needed for each of them.
        """
        numbers = range(1, most_repeats + 1) if self._pilot.residuals is not None else range(1, 2)
        found = [size for repeats in numbers if (size := self._least(repeats)) is not None]
        if not found:
            raise PilotError(
                f"expected a width that {MOST_ITEMS} episodes can reach, got {self._width:g}"
            )
        return found

    def _least(self, repeats: int) -> PlannedSize | None:
        needed = (2 * Z / self._width) ** 2 * self._pilot.variance(repeats)
        items = max(_MIN_ITEMS, math.ceil(needed))
        while items <= MOST_ITEMS:
            widths = self._simulated(items, repeats)
            if float((widths <= self._width).mean()) >= ASSURANCE:
                return PlannedSize(
                    repeats=repeats, items=items, width=round(float(np.median(widths)), 4)
                )
            items = max(items + 1, math.ceil(items * _STEP))
        return None

    def _simulated(self, items: int, repeats: int) -> Floats:
        """Return the width of the interval in each of RUNS runs of this size."""
        means = self._drawn(self._pilot.effects, items)
        if self._pilot.residuals is not None:
            for _ in range(repeats):
                means = means + self._drawn(self._pilot.residuals, items) / repeats
        return np.asarray(2 * Z * means.std(axis=1, ddof=1) / math.sqrt(items), dtype=np.float64)

    def _drawn(self, values: Floats, items: int) -> Floats:
        raw = self._bits.random_raw(RUNS * items) >> np.uint64(32)
        chosen = (raw * np.uint64(len(values))) >> np.uint64(32)
        return values[chosen.astype(np.int64)].reshape(RUNS, items)
