"""Scored episodes that people rate as well: drawn from known populations, or made by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from tests.theatre.runs import COIN
from tests.theatre.scored_runs import COMMITMENT, NANO, SCORER, episode
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Draws
from theatre.engine.models import CriterionResult, Scored
from theatre.engine.scoring import (
    Aggregator,
    CommittedRating,
    PanelScores,
    ScoredEpisode,
    TheatreScoringProvider,
)

RATED = "a"
"""The criterion that has a human part."""


@dataclass(frozen=True, kw_only=True)
class MixedRun:
    """A committed share and number of items, and the episodes; `weights` by criterion."""

    episodes: Sequence[ScoredEpisode]
    share: float | None = 0.5
    items: int = 3
    weights: Mapping[str, float] | None = None

    @property
    def document(self) -> JsonObject:
        """Return what a template commits of all this."""
        weights: dict[str, JsonValue] = dict(self.weights or {RATED: 1})
        counted: JsonObject = {} if self.share is None else {"share": self.share}
        return {
            "criteria": {"criteria_ids": [*weights], "weights": weights},
            "scoring": {"criteria_scorers": {name: {"scorer": "any"} for name in weights}},
            "execution_policy": {"on_threshold": "continue"},
            "resolution_programme": [{"step_id": "taste", "type": "hitl_rubric"}],
            "hitl_steps": [
                {
                    "step_id": "taste",
                    "rubric": "Well?",
                    "scoring_scale": {"min": 0, "max": 1},
                    "criterion_id": RATED,
                    "items": self.items,
                    **counted,
                }
            ],
        }

    @property
    def provider(self) -> TheatreScoringProvider:
        """Return what the engine scores such a run with."""
        return TheatreScoringProvider(self.document, {"any": SCORER})

    def aggregator(self, commitment_hash: str = COMMITMENT) -> Aggregator:
        """Return an aggregator that has seen every episode."""
        aggregator = Aggregator(self.provider, Draws(COIN, commitment_hash))
        for one in self.episodes:
            aggregator.add(one)
        return aggregator

    @property
    def rating(self) -> CommittedRating:
        (rating,) = self.provider.ratings
        return rating

    def aggregate(self, panel: PanelScores | None, commitment_hash: str = COMMITMENT) -> JsonObject:
        """Return the aggregate with the scores of one panel; None where it came to nothing."""
        panels = {} if panel is None else {"taste": panel}
        return self.aggregator(commitment_hash).finish(panels)


def scored(
    seq: int, values: Mapping[str, float], *, cluster_key: str | None = None
) -> ScoredEpisode:
    """Return one episode with a score in [0, 1] for each criterion."""
    scores: dict[str, CriterionResult] = {
        name: Scored(round(value * NANO)) for name, value in values.items()
    }
    return episode(seq, scores, cluster_key=cluster_key)


def drawn_interval(
    *, agreement: float, episodes: int, items: int, repeat: int
) -> tuple[float, JsonObject]:
    """Return the truth, and the interval of one run from a known population.

    An answer has a quality; its machine score and the two people's scores, from 1 to 5, follow
    that quality with probability `agreement` and one of their own else.
    """
    rng = np.random.default_rng([episodes, items, repeat, round(agreement * 100)])
    quality, other = rng.beta(2, 2, episodes), rng.beta(2, 2, episodes)
    seen = np.where(rng.random(episodes) < agreement, quality, other)
    run = MixedRun(
        episodes=[scored(n, {RATED: float(q)}) for n, q in enumerate(quality, start=1)], items=items
    )
    commitment_hash = f"{repeat:064x}"
    drawn = run.aggregator(commitment_hash).items(run.rating)
    panel = {
        scorer: {
            item: Fraction(_on_scale(seen[int(item.split()[1]) - 1], rng), 4) for item in drawn
        }
        for scorer in ("Grace", "Edsger")
    }
    aggregate = run.aggregate(panel, commitment_hash)
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    return 0.5, intervals[RATED]


def _on_scale(value: float, rng: np.random.Generator) -> int:
    """Return 0 to 4: the value and a little noise, on a scale of five points, on average right."""
    exact = 4 * float(np.clip(value + rng.normal(0, 0.05), 0, 1))
    return int(exact) + int(rng.random() < exact - int(exact))
