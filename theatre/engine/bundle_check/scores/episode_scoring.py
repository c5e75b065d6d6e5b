"""The pinned arithmetic over one dataset: a line and an outcome for each episode."""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.bundle_check.commitment.ground_truth import GroundTruth
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.people.rated_columns import RatedColumns
from theatre.engine.bundle_check.report import Cause
from theatre.engine.bundle_check.scores.results_hash import ResultsHash
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, EpisodeOutcome, GroundTruthEpisode, Verdict
from theatre.engine.scoring import (
    Aggregator,
    EpisodeAnswer,
    ScoredEpisode,
    TheatreScoringProvider,
    read_probability,
)


class EpisodeScoring:
    """Scores episode by episode; `aggregator` takes what they come to, `lines` their lines.

    So does `columns`, where people rate.
    """

    def __init__(
        self,
        provider: TheatreScoringProvider,
        gold: Mapping[str, JsonObject],
        commitment_hash: str,
        columns: RatedColumns | None,
    ) -> None:
        self._provider = provider
        self._gold = gold
        self.aggregator = Aggregator(provider, commitment_hash)
        self.columns = columns
        self.lines = ResultsHash()

    def line(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None
    ) -> tuple[bytes, EpisodeOutcome]:
        """Return line and outcome of `episode`; without an answer it was not run."""
        if answer is None:
            outcome = EpisodeOutcome.NOT_RUN
            results: Mapping[str, CriterionResult] = dict.fromkeys(
                self._provider.criterion_ids, Verdict.NOT_RUN
            )
        else:
            gold = self._gold.get(episode.episode_id)
            scores = self._provider.score_episode(episode, answer, gold)
            outcome, results = scores.outcome, scores.by_criterion
        scored = ScoredEpisode(
            seq=episode.seq,
            episode_id=episode.episode_id,
            status=None if answer is None else answer.status,
            outcome=outcome,
            scores=results,
            cluster_key=episode.cluster_key,
            probability=read_probability(answer),
        )
        line = self.aggregator.add(scored)
        self.lines.add(line)
        if self.columns is not None:
            self.columns.add(scored)
        return line, outcome


def episode_scoring(
    provider: TheatreScoringProvider | Cause, ground_truth: GroundTruth, plan: CommittedPlan
) -> EpisodeScoring | Cause:
    """Return what scores the episodes, or why nothing does."""
    gold = ground_truth.gold
    if isinstance(gold, Cause):
        return gold
    if isinstance(provider, Cause):
        return provider
    criteria = provider.criterion_ids
    columns = RatedColumns(criteria, plan.commitment_hash) if plan.rubrics else None
    return EpisodeScoring(provider, gold, plan.commitment_hash, columns)
