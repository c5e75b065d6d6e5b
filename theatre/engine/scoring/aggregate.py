"""From episode results, streamed in dataset order, to `scores/`: lines, aggregate, hash.

Source: contract/scoring.md (means, rates, holdout) and contract/evidence.md §4 (the members of
`aggregate.json`, `results_hash`). Memory grows by a few bytes an episode, for the intervals.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Verdict,
)
from theatre.engine.scoring.arithmetic import NANO, nano_to_number, ratio, rounded_number
from theatre.engine.scoring.holdout import is_held_out
from theatre.engine.scoring.intervals import undefined_interval, wilson_interval
from theatre.engine.scoring.provider import CriterionPlan, TheatreScoringProvider
from theatre.engine.scoring.units import ResampledUnits

COMPOSITE = "composite_score"
"""The key of the composite among the intervals; no criterion may be named so."""

_MIN_UNITS = 2
_NOT_HASHED = frozenset({"results_hash", "score_intervals"})
_COUNTED = ("scored", "missing", "not_applicable", "declined", "unscored")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEpisode:
    """One episode as the aggregate sees it; `status` is None where it was not run."""

    seq: int
    episode_id: str
    status: InvocationStatus | None
    outcome: EpisodeOutcome
    scores: Mapping[str, CriterionResult]
    cluster_key: str | None = None


@dataclass(slots=True)
class _CriterionTally:
    """Exact running sums of one criterion."""

    nano_sum: int = 0
    ones: int = 0
    graded: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: CriterionResult) -> None:
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


class _Group:
    """The tallies of one set of episodes: all of them, the train part, or the holdout."""

    def __init__(self, plans: Sequence[CriterionPlan]) -> None:
        self._plans = plans
        self.episodes = 0
        self.tallies = {plan.criterion_id: _CriterionTally() for plan in plans}

    def add(self, scores: Mapping[str, CriterionResult]) -> None:
        self.episodes += 1
        for criterion, tally in self.tallies.items():
            tally.add(scores[criterion])

    def means(self, *counted: str) -> dict[str, JsonValue]:
        return {
            criterion: _number(tally.mean_over(*counted))
            for criterion, tally in self.tallies.items()
        }

    def composite(self) -> float | None:
        """Return the weighted mean of the unrounded criterion means; null if one is null."""
        total = Fraction(0)
        for plan in self._plans:
            mean = self.tallies[plan.criterion_id].mean
            if mean is None:
                return None
            total += plan.weight * mean
        return rounded_number(total)

    def summary(self) -> JsonObject:
        return {
            "episodes": self.episodes,
            "scores": self.means("scored", "missing"),
            COMPOSITE: self.composite(),
        }


class Aggregator:
    """Takes every episode of the dataset once, in order; gives the lines and the aggregate."""

    def __init__(self, provider: TheatreScoringProvider, commitment_hash: str) -> None:
        self._commitment_hash = commitment_hash
        self._split = provider.holdout_split
        self._all = _Group(provider.criteria)
        self._train = _Group(provider.criteria)
        self._holdout = _Group(provider.criteria)
        self._outcomes: Counter[str] = Counter()
        self._units = ResampledUnits(provider.criteria)
        self._hasher = hashlib.sha256()

    def add(self, episode: ScoredEpisode) -> bytes:
        """Count `episode` and return its line of `scores/per_episode.jsonl`."""
        held_out = is_held_out(self._commitment_hash, episode.episode_id, self._split)
        self._outcomes[_count_name(episode)] += 1
        if episode.outcome is not EpisodeOutcome.NOT_RUN:
            self._all.add(episode.scores)
            self._units.add(episode.scores, episode.cluster_key)
            (self._holdout if held_out else self._train).add(episode.scores)
        line = per_episode_line(episode, held_out=held_out)
        self._hasher.update(line)
        return line

    def finish(self) -> JsonObject:
        """Return `scores/aggregate.json`. The aggregator takes no more episodes after this."""
        aggregate = self._aggregate()
        hashed = {key: value for key, value in aggregate.items() if key not in _NOT_HASHED}
        self._hasher.update(canonical_bytes(hashed))
        return aggregate | {"results_hash": self._hasher.hexdigest()}

    def _aggregate(self) -> JsonObject:
        counts = self._episode_counts()
        total, refused, scored = counts["total"], counts["refused"], counts["scored"]
        # Episodes that were never run count in no rate.
        run = total - counts["not_run"]
        tallies = self._all.tallies
        return {
            "scores": self._all.means("scored", "missing"),
            COMPOSITE: self._all.composite(),
            "score_counts": {
                criterion: {kind: tally.counts[kind] for kind in _COUNTED}
                for criterion, tally in tallies.items()
            },
            "episode_counts": dict(counts),
            "coverage": ratio(scored, run - refused),
            "refusal_rate": ratio(refused, run),
            "score_intervals": self._intervals(),
            "holdout_scores": self._holdout_scores(),
            "answered_only": self._all.means("scored"),
            "refusals_as_zero": self._all.means("scored", "missing", "excluded"),
        }

    def _intervals(self) -> JsonObject:
        """Return each criterion's interval and the composite's, with the method of each."""
        intervals: JsonObject = {
            criterion: self._interval(column, tally)
            for column, (criterion, tally) in enumerate(self._all.tallies.items())
        }
        return intervals | {COMPOSITE: self._units.composite_interval(seed=self._commitment_hash)}

    def _interval(self, column: int, tally: _CriterionTally) -> JsonObject:
        counted = tally.counts["scored"] + tally.counts["missing"]
        if counted < _MIN_UNITS:
            return undefined_interval()
        if tally.graded or self._units.clustered:
            return self._units.criterion_interval(column, seed=self._commitment_hash)
        return wilson_interval(tally.ones, counted)

    def _episode_counts(self) -> dict[str, int]:
        kinds = ("scored", "timeout", "error", "refused", "unscored", "not_run")
        counts = {kind: self._outcomes[kind] for kind in kinds}
        return {"total": sum(counts.values()), **counts}

    def _holdout_scores(self) -> JsonObject | None:
        if not self._split:
            return None
        return {"train": self._train.summary(), "holdout": self._holdout.summary()}


def per_episode_line(episode: ScoredEpisode, *, held_out: bool) -> bytes:
    """Return the canonical line of one episode: a failure shows as 0, every other gap as null.

    So the mean of the numbers in a column is the criterion's score, for anybody with a JSON
    parser; `outcome` says which zeros were never measured.
    """
    return canonical_line(
        {
            "seq": episode.seq,
            "episode_id": episode.episode_id,
            "outcome": episode.outcome.value,
            "scores": {
                criterion: _published(result) for criterion, result in episode.scores.items()
            },
            "holdout": held_out,
        }
    )


def _published(result: CriterionResult) -> float | None:
    if isinstance(result, Scored):
        return nano_to_number(result.nano)
    return 0 if result is Verdict.MISSING else None


def _count_name(episode: ScoredEpisode) -> str:
    """Return the member of `episode_counts` that this episode belongs to."""
    if episode.outcome is EpisodeOutcome.MISSING and episode.status is not None:
        return episode.status.value
    if episode.outcome is EpisodeOutcome.EXCLUDED:
        return "refused"
    return episode.outcome.value


def _number(mean: Fraction | None) -> float | None:
    return None if mean is None else rounded_number(mean)
