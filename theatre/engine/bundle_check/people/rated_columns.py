"""What the episodes of a rated run add to each mean, and which of them people were asked about.

Source: docs/evidence.md, "Human scores". Kept only where a programme asks people: the parts of
a score are mixed exactly, and `scores/aggregate.json` has them rounded.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from theatre.engine.models import EpisodeOutcome, Scored, Verdict
from theatre.engine.scoring import ScoredEpisode

NANO = 10**9

SCORE = ("scored", "missing")
ANSWERED = ("scored",)
REFUSALS_AS_ZERO = ("scored", "missing", "excluded")
"""Views of the machine mean: the kinds of result that are counted, a gap as 0."""

_GAPS = ("missing", "excluded", "declined", "unscored", "not_run")


@dataclass(slots=True)
class Column:
    """The results of one criterion: how many of each kind, and sums by unit in billionths.

    `sums` and `counts` have what counts in the score, an item for each unit.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    nano: int = 0
    sums: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def mean(self, kinds: Sequence[str] = SCORE) -> Fraction | None:
        """Return the mean over some kinds of result; None where there is none of them."""
        counted = sum(self.kinds[kind] for kind in kinds)
        return Fraction(self.nano, counted * NANO) if counted else None

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        """Return the mean with every gap as 0 and as 1; None where the criterion never applied."""
        gaps = sum(self.kinds[kind] for kind in _GAPS)
        applied = self.kinds["scored"] + gaps
        if not applied:
            return None
        low = Fraction(self.nano, applied * NANO)
        return low, low + Fraction(gaps, applied)


@dataclass(frozen=True, slots=True)
class Item:
    """An episode that people rate, and the unit that it belongs to."""

    episode_id: str
    unit: int


class RatedColumns:
    """Takes every episode in dataset order. A unit is an episode that was run, or a cluster."""

    def __init__(self, criteria: Sequence[str], commitment_hash: str) -> None:
        self.by_criterion = {criterion: Column() for criterion in criteria}
        self.units = 0
        self._commitment_hash = commitment_hash
        self._clusters: dict[str, int] = {}
        self._scored: list[tuple[str, str, int]] = []

    @property
    def clustered(self) -> bool:
        """Tell whether an episode that was run belongs to a cluster."""
        return bool(self._clusters)

    def add(self, episode: ScoredEpisode) -> None:
        """Take one episode."""
        if episode.outcome is EpisodeOutcome.NOT_RUN:
            for column in self.by_criterion.values():
                column.kinds[Verdict.NOT_RUN.value] += 1
            return
        unit = self._unit(episode.cluster_key)
        for criterion, column in self.by_criterion.items():
            result = episode.scores[criterion]
            nano = result.nano if isinstance(result, Scored) else 0
            kind = "scored" if isinstance(result, Scored) else result.value
            column.kinds[kind] += 1
            column.nano += nano
            column.sums[unit] += nano
            column.counts[unit] += kind in SCORE
        if episode.outcome is EpisodeOutcome.SCORED:
            text = f"{self._commitment_hash}:hitl:{episode.episode_id}"
            digest = hashlib.sha256(text.encode()).hexdigest()
            self._scored.append((digest, episode.episode_id, unit))

    def items(self, count: int) -> list[Item]:
        """Return the `count` scored episodes with the smallest digests, in their order."""
        return [Item(name, unit) for _, name, unit in heapq.nsmallest(count, self._scored)]

    def _unit(self, cluster_key: str | None) -> int:
        unit = self.units
        if cluster_key is not None:
            unit = self._clusters.setdefault(cluster_key, unit)
        if unit == self.units:
            self.units += 1
            for column in self.by_criterion.values():
                column.sums.append(0)
                column.counts.append(0)
        return unit
