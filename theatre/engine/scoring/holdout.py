"""The holdout split: drawn by the commitment hash, so that anyone can recompute it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult
from theatre.engine.scoring.holdout_gap import JointMoments, holdout_gap
from theatre.engine.scoring.provider import CriterionPlan
from theatre.engine.scoring.tallies import EpisodeGroup

_DRAW_RANGE = 2**64


def is_held_out(commitment_hash: str, episode_id: str, split: Fraction) -> bool:
    """Return whether an episode is held out at share `split` (0 … 1/2).

    Source: docs/contract/scoring.md §6. Shows over-fitting, not fraud: an author can try
    templates until a split suits.
    """
    digest = hashlib.sha256(f"{commitment_hash}:{episode_id}".encode()).hexdigest()
    return int(digest[:16], 16) * split.denominator < split.numerator * _DRAW_RANGE


class SplitScores:
    """The scores of the train part and of the holdout, and the gap between them."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self._train = EpisodeGroup(plans), JointMoments.of(plans)
        self._holdout = EpisodeGroup(plans), JointMoments.of(plans)

    def add(self, scores: Mapping[str, CriterionResult], *, held_out: bool) -> None:
        """Count one episode that was run in its part."""
        for sums in self._holdout if held_out else self._train:
            sums.add(scores)

    def as_document(self) -> JsonObject:
        """Return the member `holdout_scores` of the aggregate."""
        (train, train_moments), (holdout, holdout_moments) = self._train, self._holdout
        return {
            "train": train.summary(),
            "holdout": holdout.summary(),
            "gap": holdout_gap(self._plans, train_moments, holdout_moments),
        }
