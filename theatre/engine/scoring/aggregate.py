"""From episode results, streamed in dataset order, to `scores/`: lines, aggregate, hash.

Source: docs/contract/scoring.md (means, rates, holdout) and docs/contract/evidence.md §4 (the
members of `aggregate.json`, `results_hash`). Memory grows by a few bytes an episode, for the
intervals.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_line
from theatre.engine.coin import Draws
from theatre.engine.models import (
    REPEATS,
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    ScorerKind,
    Verdict,
)
from theatre.engine.scoring.arithmetic import (
    NANO,
    Z,
    exact,
    nano_to_number,
    ratio,
    rounded_number,
    rounded_or_none,
    undefined_interval,
    wilson_interval,
)
from theatre.engine.scoring.bootstrap import Part, mixed_interval
from theatre.engine.scoring.calibration import CalibrationTally, Probability
from theatre.engine.scoring.corrections import LabelledItems
from theatre.engine.scoring.holdout import SplitScores, is_held_out
from theatre.engine.scoring.provider import TheatreScoringProvider
from theatre.engine.scoring.ratings import (
    NO_HUMAN_PARTS,
    CommittedRating,
    HumanParts,
    ItemDraw,
    Panel,
    PanelScores,
)
from theatre.engine.scoring.repeats import RepeatScores, RepeatTally, published_nano
from theatre.engine.scoring.tallies import (
    COMPOSITE,
    CriterionTally,
    EpisodeGroup,
    ResampledUnits,
    weigh,
)

_GAPS = ("missing", "excluded", "declined", "unscored")
_MIN_UNITS = 2
_MOST_UNCOUNTED = 256
"""So many rows of results that differ wait to be counted: most runs have fewer in all."""
_NOT_HASHED = frozenset({"results_hash", "score_intervals"})
NARROWED = "interval-narrowed"
"""The finding where an interval over clusters says more than the single episodes would."""
LEFT_OUT = "left-out"
"""The finding where the score with each gap as 0 lies below its interval."""

_COUNTED = ("scored", "missing", "not_applicable", "declined", "unscored")


class ScoredEpisode(NamedTuple):
    """One episode as the aggregate sees it; `status` is None where it was not run."""

    seq: int
    episode_id: str
    status: InvocationStatus | None
    outcome: EpisodeOutcome
    scores: Mapping[str, CriterionResult]
    cluster_key: str | None = None
    probability: Probability | None = None
    repeats: RepeatScores | None = None


class Aggregator:
    """Takes every episode of the dataset once, in order; gives the lines and the aggregate.

    Holdout and intervals follow from the commitment hash: no construct is asked by them. Whom
    people are asked about is drawn by the coin.
    """

    def __init__(self, provider: TheatreScoringProvider, draws: Draws) -> None:
        self._commitment_hash = draws.commitment_hash
        self._criteria = provider.criteria
        self._holdout_share = provider.holdout_split
        # Whole numbers: sums of fractions would be half of what a line costs.
        weights = {plan.criterion_id: plan.weight for plan in provider.criteria}
        scale = math.lcm(*(weight.denominator for weight in weights.values()))
        self._shares = {name: int(weight * scale) for name, weight in weights.items()}
        people = {one.criterion_id: one.share for one in provider.ratings if one.in_aggregate}
        self._machine = {
            name: share if (given := people.get(name)) is None else share * (1 - given)
            for name, share in self._shares.items()
        }
        self._all = EpisodeGroup(provider.criteria)
        self._lines = CriterionTally()
        """Of each episode the machine's part of the weighted mean of its numbers."""
        self._split = SplitScores(provider.criteria) if provider.holdout_split else None
        calibrated = provider.calibration_criterion
        self._calibration = None if calibrated is None else CalibrationTally(calibrated)
        self._repeats = None if provider.repeats == 1 else RepeatTally(weights, provider.repeats)
        self._outcomes: Counter[str] = Counter()
        self._uncounted: Counter[tuple[bool, tuple[CriterionResult, ...]]] = Counter()
        """Whether held out, and results → how often they came and are in no sum yet."""
        self._units = ResampledUnits(provider.criteria)
        self._ratings = provider.ratings
        drawn = max((rating.items for rating in provider.ratings), default=0)
        self._draw = ItemDraw(draws.item_rank, drawn)
        self._human = NO_HUMAN_PARTS
        self._answered = array("q")
        """The units of scored episodes, where people are asked about some of them."""
        self._hasher = hashlib.sha256()

    def add(self, episode: ScoredEpisode) -> bytes:
        """Count `episode` and return its line of `scores/per_episode.jsonl`."""
        held_out = is_held_out(self._commitment_hash, episode.episode_id, self._holdout_share)
        self._outcomes[_count_name(episode)] += 1
        # What was not run is in no mean, no rate and no interval: a total of its own says it.
        if episode.outcome is not EpisodeOutcome.NOT_RUN:
            results = tuple(map(episode.scores.__getitem__, self._shares))
            self._uncounted[held_out, results] += 1
            if len(self._uncounted) == _MOST_UNCOUNTED:
                self._count()
            row = self._units.add(episode.scores, episode.cluster_key)
            if episode.outcome is EpisodeOutcome.SCORED:
                self._draw.add(episode.episode_id, row)
                if self._ratings:
                    self._answered.append(row)
            if self._calibration is not None:
                self._calibration.add(episode.scores, episode.probability)
            if self._repeats is not None and episode.repeats is not None:
                self._repeats.add(episode.repeats)
        line = self._line(episode, held_out=held_out)
        self._hasher.update(line)
        return line

    def _count(self) -> None:
        """Add up what came so far: results that came again and again once."""
        for (held_out, results), times in self._uncounted.items():
            scores = dict(zip(self._shares, results, strict=True))
            self._all.add(scores, times)
            self._lines.add(self._weighted(scores), times)
            if self._split is not None:
                self._split.add(scores, times, held_out=held_out)
        self._uncounted.clear()

    def _weighted(self, scores: Mapping[str, CriterionResult]) -> CriterionResult:
        shown = {name: published_nano(result) for name, result in scores.items()}
        total = sum(self._shares[name] for name, nano in shown.items() if nano is not None)
        nano = sum(self._machine[name] * (nano or 0) for name, nano in shown.items())
        return Scored(int(nano // total)) if total else Verdict.NOT_APPLICABLE

    def _line(self, episode: ScoredEpisode, *, held_out: bool) -> bytes:
        """Return the canonical line of one episode: a failure shows as 0, every other gap as null.

        So the mean of the numbers in a column is the criterion's score, for anybody with a JSON
        parser; `outcome` says which zeros were never measured. `composite` is the weighted mean
        of the numbers in the line.
        """
        shown = {criterion: published_nano(result) for criterion, result in episode.scores.items()}
        counted = [
            (share, nano)
            for criterion, share in self._shares.items()
            if (nano := shown[criterion]) is not None
        ]
        shares = sum(share for share, _ in counted)
        weighted = sum(share * nano for share, nano in counted)
        repeats: JsonObject = {}
        if self._repeats is not None:
            repeats = {REPEATS: None if episode.repeats is None else episode.repeats.as_document()}
        return canonical_line(
            {
                "seq": episode.seq,
                "episode_id": episode.episode_id,
                "outcome": episode.outcome.value,
                "scores": {
                    criterion: None if nano is None else nano_to_number(nano)
                    for criterion, nano in shown.items()
                },
                "composite": _mean(weighted, shares * NANO) if shares else None,
                "holdout": held_out,
                **repeats,
            }
        )

    @property
    def scored(self) -> int:
        """Return how many episodes were scored so far."""
        return self._outcomes[EpisodeOutcome.SCORED.value]

    def items(self, rating: CommittedRating) -> tuple[str, ...]:
        """Return the episodes that people are asked to rate, all scored ones if there are fewer."""
        return tuple(self._draw.draw(rating.items))

    def human_mean(self, rating: CommittedRating, scores: PanelScores) -> float | None:
        """Return the human mean of one step to nine places; None without ratings."""
        panel = Panel(rating=rating, rows=self._draw.draw(rating.items), scores=scores)
        return rounded_or_none(panel.mean)

    def finish(
        self,
        panels: Mapping[str, PanelScores] | None = None,
        computed: JsonObject | None = None,
    ) -> JsonObject:
        """Return `scores/aggregate.json`. The aggregator takes no more episodes after this.

        `panels` has the scores that count of each rubric step before the first aggregation, by its
        step_id; where a step is missing, its criterion was not measured as committed. `computed`
        has the outputs that were committed to stand in the aggregate, by step_id, null where a
        step was not completed; without one the member is absent.
        """
        self._human = HumanParts(
            [
                Panel(
                    rating=rating,
                    rows=self._draw.draw(rating.items),
                    scores=(panels or {}).get(rating.step_id, {}),
                )
                for rating in self._ratings
                if rating.in_aggregate
            ]
        )
        self._count()
        aggregate = self._aggregate() | ({"computed": computed} if computed else {})
        hashed = {key: value for key, value in aggregate.items() if key not in _NOT_HASHED}
        self._hasher.update(canonical_bytes(hashed))
        return aggregate | {"results_hash": self._hasher.hexdigest()}

    def labelled(self) -> dict[str, LabelledItems]:
        """Return judged criterion → its answers of which people labelled a part; after `finish`.

        By the first rating of the criterion that has no share in its score.
        """
        columns = {
            plan.criterion_id: column
            for column, plan in enumerate(self._criteria)
            if plan.scorer.kind is ScorerKind.JUDGED
        }
        found: dict[str, LabelledItems] = {}
        for criterion, panel in self._human.labelling():
            if criterion in columns and criterion not in found:
                scores = self._units.means(columns[criterion], self._answered)
                found[criterion] = self._labelled_by(panel, scores)
        return found

    def narrowed(self, aggregate: JsonObject) -> list[str]:
        """Return a code for each score whose interval clusters make less than half as wide.

        Than a normal one over single episodes. An author chooses them, and can after he has seen
        the answers: right and wrong ones put together differ little. Of the composite, those whose
        criteria make up for each other. `aggregate` is that of `finish`.
        """
        if not self._units.clustered:
            return []
        intervals = cast("Mapping[str, Mapping[str, float | None]]", aggregate["score_intervals"])
        found = []
        for name, tally in {**self._all.tallies, COMPOSITE: self._lines}.items():
            low, high = intervals[name]["low"], intervals[name]["high"]
            alone = exact(Z) ** 2 * (1 - self._human.share_of(name)) ** 2 * tally.variance
            if low is not None and high is not None and (exact(high) - exact(low)) ** 2 < alone:
                found.append(f"{NARROWED}:{name}")
        return found

    def _labelled_by(self, panel: Panel, scores: dict[int, float]) -> LabelledItems:
        rows = panel.rows.values()
        pairs = [
            (float(label), scores.pop(row))
            for row, label in zip(rows, panel.item_means, strict=bool(panel.scores))
            if row in scores
        ]
        return LabelledItems(
            step_id=panel.rating.step_id,
            scorers=len(panel.scores),
            labels=[label for label, _ in pairs],
            judged=[said for _, said in pairs],
            others=[*scores.values()],
            clustered=self._units.clustered,
        )

    def _aggregate(self) -> JsonObject:
        kinds = ("scored", "timeout", "error", "refused", "unscored", "not_run")
        by_kind = {kind: self._outcomes[kind] for kind in kinds}
        counts = {"total": sum(by_kind.values()), **by_kind}
        total, refused, scored = counts["total"], counts["refused"], counts["scored"]
        # Episodes that were never run count in no rate.
        run = total - counts["not_run"]
        tallies = self._all.tallies
        return {
            "scores": self._all.means("scored", "missing", human=self._human),
            COMPOSITE: self._all.composite(self._human),
            "score_counts": {
                criterion: {kind: tally.counts[kind] for kind in _COUNTED}
                for criterion, tally in tallies.items()
            },
            "episode_counts": dict(counts),
            "coverage": ratio(scored, run - refused),
            "refusal_rate": ratio(refused, run),
            "score_intervals": {
                **{criterion: self._interval(at) for at, criterion in enumerate(tallies)},
                COMPOSITE: self._composite_interval(),
            },
            "holdout_scores": None if self._split is None else self._split.as_document(),
            "answered_only": self._all.means("scored", human=self._human),
            "refusals_as_zero": self._all.means("scored", "missing", "excluded", human=self._human),
            "worst_case_bounds": self._worst_case(counts["not_run"]),
            "human_scores": self._human.as_document(
                {criterion: tally.mean for criterion, tally in tallies.items()}
            ),
            "calibration": None if self._calibration is None else self._calibration.as_document(),
            **({} if self._repeats is None else {REPEATS: self._repeated(self._repeats)}),
        }

    def _repeated(self, repeats: RepeatTally) -> JsonObject:
        means = {criterion: tally.mean for criterion, tally in self._all.tallies.items()}
        scores = means | {COMPOSITE: self._all.weighted_mean()}
        return repeats.as_document(scores, clustered=self._units.clustered)

    def _worst_case(self, not_run: int) -> JsonObject:
        """Return `{"low", "high"}` for each criterion and the composite, to nine places.

        The mean over all episodes to which a criterion applies, with each gap as 0 and as 1: those
        that failed, refused, declined, could not be scored, or were not run. Null where it applies
        to none, and for the composite where one criterion is null. Source: Manski 1989 (bounds
        without an assumption about what is missing).
        """
        lows: list[Fraction | None] = []
        highs: list[Fraction | None] = []
        for criterion, tally in self._all.tallies.items():
            # None of those that were not run was asked whether the criterion applies: counting
            # them can only widen the bounds.
            gaps = sum(tally.counts[kind] for kind in _GAPS) + not_run
            applicable = tally.counts["scored"] + gaps
            low = high = None
            if applicable:
                low = Fraction(tally.nano_sum, applicable * NANO)
                high = low + Fraction(gaps, applicable)
            # A human part has no gaps: it moves both bounds alike.
            lows.append(self._human.blend(criterion, low))
            highs.append(self._human.blend(criterion, high))
        lows.append(weigh(self._criteria, lows))
        highs.append(weigh(self._criteria, highs))
        return {
            name: None
            if low is None or high is None
            else {"low": rounded_number(low), "high": rounded_number(high)}
            for name, low, high in zip([*self._all.tallies, COMPOSITE], lows, highs, strict=True)
        }

    def _composite_interval(self) -> JsonObject:
        if not self._human:
            return self._units.composite_interval(seed=self._commitment_hash)
        parts = [
            Part(plan.weight * part.weight, part.influences)
            for column, plan in enumerate(self._criteria)
            for part in self._parts(column)
        ]
        score = self._all.weighted_mean(self._human)
        return mixed_interval(score, parts, clustered=self._units.clustered)

    def _parts(self, column: int) -> list[Part]:
        criterion = self._criteria[column].criterion_id
        panel, share = self._human.panel_of(criterion), self._human.share_of(criterion)
        machine = Part(1 - share, self._units.influences(column))
        if panel is None:
            return [machine]
        return [machine, Part(share, panel.influences(self._units.rows))]

    def _interval(self, column: int) -> JsonObject:
        criterion = self._criteria[column].criterion_id
        tally = self._all.tallies[criterion]
        if self._human.panel_of(criterion) is not None:
            score = self._human.blend(criterion, tally.mean)
            return mixed_interval(score, self._parts(column), clustered=self._units.clustered)
        counted = tally.counts["scored"] + tally.counts["missing"]
        if counted < _MIN_UNITS:
            return undefined_interval()
        # Wilson's interval is about independent right or wrong answers, and nothing else.
        if tally.graded or self._units.clustered:
            return self._units.criterion_interval(column, seed=self._commitment_hash)
        return wilson_interval(tally.ones, counted)


@lru_cache(maxsize=_MOST_UNCOUNTED)
def _mean(total: int, units: int) -> float:
    return rounded_number(Fraction(total, units))


def _count_name(episode: ScoredEpisode) -> str:
    """Return the member of `episode_counts` that this episode belongs to."""
    if episode.outcome is EpisodeOutcome.MISSING and episode.status is not None:
        return episode.status.value
    if episode.outcome is EpisodeOutcome.EXCLUDED:
        return "refused"
    return episode.outcome.value


def left_out_findings(aggregate: JsonObject) -> list[str]:
    """Return a code for each criterion whose interval would not hold, its gaps counted as 0.

    What is refused or declined is in no mean: who leaves out what is hard scores on the rest.
    `aggregate` is that of `finish`.
    """
    scores, intervals, worst = (
        cast("Mapping[str, Any]", aggregate[name])
        for name in ("scores", "score_intervals", "worst_case_bounds")
    )
    found = []
    for name, score in scores.items():
        low = intervals[name]["low"]
        limit = score if low is None else low
        bounds = worst[name]
        if limit is not None and bounds and exact(bounds["low"]) < exact(limit):
            found.append(f"{LEFT_OUT}:{name}")
    return found
