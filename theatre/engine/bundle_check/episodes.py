"""One pass over dataset, records and score lines, side by side: memory does not grow.

Recomputes every outcome and score from the recorded answers (contract/evidence.md §6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.batches import BatchIndex
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.ground_truth import GroundTruth, episodes
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.record_source import RecordItem, stored_records
from theatre.engine.bundle_check.records import CallFacts, RecordChecker
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.score_lines import ScoreLines
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    GroundTruthEpisode,
    InvocationStatus,
    Verdict,
)
from theatre.engine.scoring import (
    Aggregator,
    EpisodeAnswer,
    FailureStop,
    ScoredEpisode,
    TheatreScoringProvider,
)

_OUTCOMES = {
    InvocationStatus.SUCCESS: frozenset({EpisodeOutcome.SCORED, EpisodeOutcome.UNSCORED}),
    InvocationStatus.REFUSED: frozenset({EpisodeOutcome.EXCLUDED}),
    InvocationStatus.TIMEOUT: frozenset({EpisodeOutcome.MISSING}),
    InvocationStatus.ERROR: frozenset({EpisodeOutcome.MISSING}),
}
_NOT_RUN = frozenset({EpisodeOutcome.NOT_RUN})


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvidence:
    """What the pass came to: the facts of the calls, and the aggregate or why there is none."""

    calls: CallFacts
    aggregate: JsonObject | Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSources:
    """What the pass reads, beside the folder."""

    plan: CommittedPlan
    ground_truth: GroundTruth
    checker: RecordChecker
    provider: TheatreScoringProvider | Cause
    batches: BatchIndex


def unread_episodes(
    folder: BundleFolder, batches: BatchIndex, cause: Cause, ledger: Ledger
) -> EpisodeEvidence:
    """Take the records alone, where there is nothing to hold them against but the trail."""
    calls = CallFacts()
    for item in stored_records(folder, None, ledger):
        if item.record is not None:
            _note(item.record, item, calls, batches)
    for check in (
        CheckId.INVOCATIONS,
        CheckId.VERSION_PINS,
        CheckId.OUTCOMES,
        CheckId.SCORES,
    ):
        ledger.cannot(check, cause)
    return EpisodeEvidence(calls=calls, aggregate=cause)


def check_episodes(
    folder: BundleFolder, sources: EpisodeSources, ledger: Ledger
) -> EpisodeEvidence:
    """Make the checks `invocations`, `version-pins`, `outcomes` and `scores`."""
    return _EpisodePass(folder, sources, ledger).run()


class _EpisodePass:
    """The state of the pass: the next record, and the scoring or what ended it."""

    def __init__(self, folder: BundleFolder, sources: EpisodeSources, ledger: Ledger) -> None:
        self._folder = folder
        self._sources = sources
        self._ledger = ledger
        self._calls = CallFacts()
        self._records = stored_records(folder, sources.ground_truth.total, ledger)
        self._next = next(self._records, None)
        self._scoring: _Scoring | Cause = _scoring_of(sources)

    def run(self) -> EpisodeEvidence:
        sources, ledger = self._sources, self._ledger
        total = sources.ground_truth.total
        stop = FailureStop(total=total, threshold=sources.plan.failure_threshold)
        lines = ScoreLines(self._folder, ledger)
        read = 0
        for episode in episodes(self._folder, ledger):
            read += 1
            item = self._record_of(episode, stopped=stop.stopped)
            answer = None if item is None else self._answer(item, episode)
            outcomes = _NOT_RUN if stop.stopped else _outcomes(answer)
            line = None
            if isinstance(self._scoring, _Scoring):
                line, outcome = self._scoring.line(episode, None if stop.stopped else answer)
                outcomes = frozenset({outcome})
            lines.take(episode, outcomes, line)
            if EpisodeOutcome.MISSING in outcomes:
                stop.count(EpisodeOutcome.MISSING)
        if read != total:
            cut = "the dataset cannot be read to its end"
            self._give_up(cut, CheckId.INVOCATIONS, CheckId.VERSION_PINS)
        self._take_rest(flagged=read == total)
        return self._finish(lines)

    def _record_of(self, episode: GroundTruthEpisode, *, stopped: bool) -> RecordItem | None:
        """Return the record that lies where that of `episode` must; note where none does."""
        item = self._take_up_to(episode.seq)
        if item is not None:
            if stopped:
                expected = f"no record of episode {episode.seq}: the run had ended"
                self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)
            return item
        if not stopped:
            expected = f"a record of episode {episode.seq}"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, "none")
            self._give_up(f"there is no record of episode {episode.seq}", CheckId.VERSION_PINS)
        return None

    def _answer(self, item: RecordItem, episode: GroundTruthEpisode) -> EpisodeAnswer | None:
        if item.record is None:
            what = f"the record of episode {episode.seq} cannot be read"
            self._give_up(what, CheckId.VERSION_PINS)
            return None
        self._sources.checker.check(item.record, episode, item.where)
        answer = self._sources.checker.answer(item.record)
        if answer is None:
            self._give_up(f"the record of episode {episode.seq} holds no answer")
        return answer

    def _give_up(self, text: str, *checks: CheckId) -> None:
        """Stop scoring, and `checks`: what comes now would rest on a gap.

        A defect outweighs a scorer that is not to be had.
        """
        for check in checks:
            self._ledger.cannot(check, Cause(text))
        if isinstance(self._scoring, _Scoring) or self._scoring.unavailable:
            self._scoring = Cause(text)

    def _take_up_to(self, position: int) -> RecordItem | None:
        """Take the record at `position` and return it; what lies before it is misplaced."""
        while self._next is not None and self._next.position <= position:
            item = self._take(self._next)
            if item.position == position:
                return item
            self._flag(item)
        return None

    def _take_rest(self, *, flagged: bool) -> None:
        """Take the records that no episode asked for."""
        while self._next is not None:
            item = self._take(self._next)
            if flagged:
                self._flag(item)

    def _take(self, item: RecordItem) -> RecordItem:
        self._next = next(self._records, None)
        if item.record is not None:
            _note(item.record, item, self._calls, self._sources.batches)
        return item

    def _flag(self, item: RecordItem) -> None:
        expected = "records of episodes of the dataset only"
        self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)

    def _finish(self, lines: ScoreLines) -> EpisodeEvidence:
        recorded, mismatches = self._calls.recorded, self._calls.version_mismatches
        self._ledger.completed(CheckId.INVOCATIONS, f"{recorded} records")
        self._ledger.completed(CheckId.VERSION_PINS, f"{mismatches} mismatches")
        scoring = self._scoring
        lines.finish(scoring if isinstance(scoring, Cause) else None)
        aggregate = scoring if isinstance(scoring, Cause) else scoring.aggregator.finish()
        return EpisodeEvidence(calls=self._calls, aggregate=aggregate)


class _Scoring:
    """The pinned arithmetic over one dataset."""

    def __init__(
        self,
        provider: TheatreScoringProvider,
        gold: Mapping[str, JsonObject],
        commitment_hash: str,
    ) -> None:
        self._provider = provider
        self._gold = gold
        self.aggregator = Aggregator(provider, commitment_hash)

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
        )
        return self.aggregator.add(scored), outcome


def _scoring_of(sources: EpisodeSources) -> _Scoring | Cause:
    provider, gold = sources.provider, sources.ground_truth.gold
    if isinstance(gold, Cause):
        return gold
    if isinstance(provider, Cause):
        return provider
    return _Scoring(provider, gold, sources.plan.commitment_hash)


def _outcomes(answer: EpisodeAnswer | None) -> frozenset[EpisodeOutcome]:
    """Return the outcomes that an answer can have; which one, for a success, scorers say."""
    return frozenset() if answer is None else _OUTCOMES[answer.status]


def _note(record: JsonObject, item: RecordItem, calls: CallFacts, batches: BatchIndex) -> None:
    calls.note(record)
    batches.note_record(item.position, item.raw, record)
