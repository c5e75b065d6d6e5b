"""The holdout split: drawn by the commitment hash, so that anyone can recompute it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TypeAlias

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, Scored, Verdict
from theatre.engine.scoring.arithmetic import NANO, rounded_number
from theatre.engine.scoring.provider import CriterionPlan
from theatre.engine.scoring.tallies import COMPOSITE, EpisodeGroup

# Whether the holdout scores differ from the train scores by more than the draw explains.
#
# Source: docs/contract/scoring.md §6. The commitment hash drew the parts, so the standard error is
# that of a random draw (Neyman 1923); docs/statistics.md says why not Welch's. Compared in exact
# rationals: the verdict is part of `results_hash`.


_Z_SQUARED = Fraction(Decimal("1.959963984540054")) ** 2
"""The square of the 97.5 % point of the standard normal distribution."""

_MIN_VALUES = 2

Weights: TypeAlias = Mapping[str, Fraction]
"""Criterion → its share in the score that is compared."""


@dataclass(slots=True)
class JointMoments:
    """Exact first and second moments of the criteria of one part, gathered as episodes stream.

    `pairs` has, over the episodes that count in both of two criteria, `count`, `first`, `second`
    and `product`: sums of their number and of scores in billionths. `episodes` is how many count
    in at least one criterion of those with a weight, which `weighted` are.
    """

    pairs: dict[tuple[str, str], Counter[str]]
    weighted: frozenset[str]
    episodes: int = 0

    @classmethod
    def of(cls, plans: Sequence[CriterionPlan]) -> JointMoments:
        """Return the moments of no episode."""
        criteria = [plan.criterion_id for plan in plans]
        pairs = {pair: Counter[str]() for pair in combinations_with_replacement(criteria, 2)}
        return cls(pairs, frozenset(plan.criterion_id for plan in plans if plan.weight))

    def add(self, scores: Mapping[str, CriterionResult], times: int = 1) -> None:
        """Take so many episodes with the same results: a failure is 0, any other gap nothing."""
        counted = {
            criterion: result.nano if isinstance(result, Scored) else 0
            for criterion, result in scores.items()
            if isinstance(result, Scored) or result is Verdict.MISSING
        }
        self.episodes += times * (not self.weighted.isdisjoint(counted))
        for (one, other), sums in self.pairs.items():
            if one in counted and other in counted:
                first, second = times * counted[one], counted[other]
                sums.update(count=times, first=first, second=times * second, product=first * second)

    def plus(self, other: JointMoments) -> JointMoments:
        """Return the moments of both parts together."""
        pairs = {pair: sums + other.pairs[pair] for pair, sums in self.pairs.items()}
        return JointMoments(pairs, self.weighted, self.episodes + other.episodes)

    def count(self, criterion: str) -> int:
        """Return how many episodes count in `criterion`."""
        return self.pairs[criterion, criterion]["count"]

    def units(self, weights: Weights) -> int:
        """Return how many episodes the weighted score is made of."""
        return self.count(*weights) if len(weights) == 1 else self.episodes

    def mean(self, weights: Weights) -> Fraction:
        """Return the weighted mean of the criterion means, in billionths; each must have one."""
        return sum((weight * self._mean(name) for name, weight in weights.items()), Fraction(0))

    def spread(self, weights: Weights) -> Fraction:
        """Return Σ u², u being what one episode adds to the weighted mean, or takes from it.

        u = Σ weight · (score - criterion mean) / criterion count, over the criteria in which the
        episode counts. For one criterion it is the variance of its values / their number.
        """
        total = Fraction(0)
        for (first, second), sums in self.pairs.items():
            if not sums["count"] or first not in weights or second not in weights:
                continue
            mean, other_mean = self._mean(first), self._mean(second)
            joint = (
                sums["product"]
                - mean * sums["second"]
                - other_mean * sums["first"]
                + sums["count"] * mean * other_mean
            )
            share = weights[first] * weights[second] / (self.count(first) * self.count(second))
            total += share * joint * (1 if first == second else 2)
        return total

    def _mean(self, criterion: str) -> Fraction:
        sums = self.pairs[criterion, criterion]
        return Fraction(sums["first"], sums["count"])


def holdout_gap(
    plans: Sequence[CriterionPlan], train: JointMoments, holdout: JointMoments
) -> JsonObject:
    """Return `{"difference", "beyond_sampling_error"}` for each criterion and the composite.

    `difference` is train - holdout to nine places, null where a part has no value.
    `beyond_sampling_error` tells whether it exceeds 1.96 standard errors, null where a part has
    fewer than two values: of any criterion, for the composite.
    """
    gap: JsonObject = {
        plan.criterion_id: _gap({plan.criterion_id: Fraction(1)}, train, holdout) for plan in plans
    }
    composite = {plan.criterion_id: plan.weight for plan in plans}
    return gap | {COMPOSITE: _gap(composite, train, holdout)}


def _gap(weights: Weights, train: JointMoments, holdout: JointMoments) -> JsonObject:
    fewest = min(part.count(criterion) for part in (train, holdout) for criterion in weights)
    if not fewest:
        return {"difference": None, "beyond_sampling_error": None}
    difference = train.mean(weights) - holdout.mean(weights)
    beyond = None
    if fewest >= _MIN_VALUES:
        beyond = difference**2 > _Z_SQUARED * _variance(weights, train, holdout)
    return {
        "difference": rounded_number(difference / NANO),
        "beyond_sampling_error": beyond,
    }


def _variance(weights: Weights, train: JointMoments, holdout: JointMoments) -> Fraction:
    """Return the variance of the difference over all draws, were every score as it is.

    s² · (1 / train + 1 / holdout), with s² of all episodes together: a part of twelve right answers
    has no variance of its own, and is no proof that the thirteenth will be right.
    """
    both = train.plus(holdout)
    n = both.units(weights)
    parts = train.units(weights) * holdout.units(weights)
    return Fraction(n**3, (n - 1) * parts) * both.spread(weights)


_DRAW_RANGE = 2**64


def is_held_out(commitment_hash: str, episode_id: str, split: Fraction) -> bool:
    """Return whether an episode is held out at share `split` (0 … 1/2).

    Source: docs/contract/scoring.md §6. Shows over-fitting, not fraud: an author can try
    templates until a split suits.
    """
    # By what was committed: no one sets it directly, and anyone can compute it again.
    digest = hashlib.sha256(f"{commitment_hash}:{episode_id}".encode()).hexdigest()
    return int(digest[:16], 16) * split.denominator < split.numerator * _DRAW_RANGE


class SplitScores:
    """The scores of the train part and of the holdout, and the gap between them."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self._train = EpisodeGroup(plans), JointMoments.of(plans)
        self._holdout = EpisodeGroup(plans), JointMoments.of(plans)

    def add(self, scores: Mapping[str, CriterionResult], times: int = 1, *, held_out: bool) -> None:
        """Count so many episodes that were run, with the same results, in their part."""
        for sums in self._holdout if held_out else self._train:
            sums.add(scores, times)

    def as_document(self) -> JsonObject:
        """Return the member `holdout_scores` of the aggregate."""
        (train, train_moments), (holdout, holdout_moments) = self._train, self._holdout
        return {
            "train": train.summary(),
            "holdout": holdout.summary(),
            "gap": holdout_gap(self._plans, train_moments, holdout_moments),
        }
