"""Exact running sums of scores: by criterion, and by set of episodes.

Source: docs/contract/scoring.md §1 and §4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import CriterionResult, Verdict
from theatre.engine.scoring.arithmetic import NANO, rounded_number
from theatre.engine.scoring.human_parts import NO_HUMAN_PARTS, HumanParts
from theatre.engine.scoring.provider import CriterionPlan

COMPOSITE = "composite_score"
"""The composite's key among the criteria; no criterion may have this name."""


@dataclass(slots=True)
class CriterionTally:
    """Exact running sums of one criterion over the episodes that were run."""

    nano_sum: int = 0
    ones: int = 0
    graded: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: CriterionResult) -> None:
        """Count one result."""
        if isinstance(result, Verdict):
            self.counts[result.value] += 1
            return
        self.counts["scored"] += 1
        self.nano_sum += result.nano
        self.ones += result.nano == NANO
        self.graded += result.nano not in {0, NANO}

    def mean_over(self, *counted: str) -> Fraction | None:
        """Return the mean in units of 1 over the named kinds, a gap counting as 0."""
        units = sum(self.counts[kind] for kind in counted)
        return Fraction(self.nano_sum, units * NANO) if units else None

    @property
    def mean(self) -> Fraction | None:
        """Return the criterion's score: failures count against it, refusals not at all."""
        return self.mean_over("scored", "missing")


class EpisodeGroup:
    """The tallies of one set of episodes: all of them, the train part, or the holdout."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self.episodes = 0
        self.tallies = {plan.criterion_id: CriterionTally() for plan in plans}

    def add(self, scores: Mapping[str, CriterionResult]) -> None:
        """Count one episode that was run."""
        self.episodes += 1
        for criterion, tally in self.tallies.items():
            tally.add(scores[criterion])

    def means(self, *counted: str, human: HumanParts = NO_HUMAN_PARTS) -> dict[str, JsonValue]:
        """Return each criterion's mean over the named kinds, to nine places; null without any.

        `human` parts are mixed in where a criterion has one.
        """
        means = {
            name: human.blend(name, tally.mean_over(*counted))
            for name, tally in self.tallies.items()
        }
        return {name: None if m is None else rounded_number(m) for name, m in means.items()}

    def weighted_mean(self, human: HumanParts = NO_HUMAN_PARTS) -> Fraction | None:
        """Return the weighted mean of the unrounded criterion scores; None if one is None."""
        total = Fraction(0)
        for plan in self._plans:
            score = human.blend(plan.criterion_id, self.tallies[plan.criterion_id].mean)
            if score is None:
                return None
            total += plan.weight * score
        return total

    def composite(self, human: HumanParts = NO_HUMAN_PARTS) -> float | None:
        """Return the weighted mean to nine places."""
        mean = self.weighted_mean(human)
        return None if mean is None else rounded_number(mean)

    def summary(self) -> JsonObject:
        """Return what `holdout_scores` says about a part."""
        return {
            "episodes": self.episodes,
            "scores": self.means("scored", "missing"),
            COMPOSITE: self.composite(),
        }
