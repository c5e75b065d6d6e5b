"""One pass over dataset, records and score lines, side by side: memory does not grow.

Recomputes every outcome and score from the recorded answers (docs/contract/evidence.md §8). Of an
episode only its outcome is kept, for what the programme computes over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from theatre.engine.bundle_check.audit_trail import Times
from theatre.engine.bundle_check.batches import BatchIndex
from theatre.engine.bundle_check.commitment import GroundTruth, episodes
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.json_values import NOTHING, Nothing
from theatre.engine.bundle_check.panels import Panel
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.recorded import CallFacts, RecordItem, stored_records
from theatre.engine.bundle_check.records import RecordChecker
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.results import ScoreLines
from theatre.engine.bundle_check.scorers import EpisodeAnswer, EpisodeScoring, PinnedScorers
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Draws
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode, InvocationStatus

_OUTCOMES = {
    InvocationStatus.SUCCESS: frozenset({EpisodeOutcome.SCORED, EpisodeOutcome.UNSCORED}),
    InvocationStatus.REFUSED: frozenset({EpisodeOutcome.EXCLUDED}),
    InvocationStatus.TIMEOUT: frozenset({EpisodeOutcome.MISSING}),
    InvocationStatus.ERROR: frozenset({EpisodeOutcome.MISSING}),
}
_NOT_RUN = frozenset({EpisodeOutcome.NOT_RUN})
_OF_RECORDS = (CheckId.INVOCATIONS, CheckId.SANITISED_INPUT, CheckId.VERSION_PINS)

PROGRESS_STEP = 100
"""A caller hears of the pass, and may end it, every so many episodes."""

NOT_AGGREGATED = Cause("the scores were not added up")


def episode_scoring(
    scorers: PinnedScorers | Cause, ground_truth: GroundTruth, plan: CommittedPlan, draws: Draws
) -> EpisodeScoring | Cause:
    """Return what scores the episodes, or why nothing does."""
    gold = ground_truth.gold
    if isinstance(gold, Cause):
        return gold
    if isinstance(scorers, Cause):
        return scorers
    return EpisodeScoring(scorers, gold, plan, draws, ground_truth.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvidence:
    """The result of the pass: the facts of the calls, and what was scored or why nothing was.

    `sanitiser` is its version by the records, null where none was committed. `outcomes` has one
    for each episode of the dataset where all were scored. `aggregate` and `panels`, by step_id,
    come with people's scores. `other_runner` says why the installed runner must play nothing.
    """

    calls: CallFacts
    scoring: EpisodeScoring | Cause
    sanitiser: JsonValue | Nothing
    aggregate: JsonObject | Cause = NOT_AGGREGATED
    outcomes: Sequence[EpisodeOutcome] = ()
    panels: Mapping[str, Panel] = field(default_factory=dict)
    other_runner: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSources:
    """What the pass reads, in addition to the folder."""

    plan: CommittedPlan
    draws: Draws
    ground_truth: GroundTruth
    checker: RecordChecker
    scorers: PinnedScorers | Cause
    batches: BatchIndex
    times: Times
    progress: Callable[[int], None]


def unread_episodes(
    folder: BundleFolder, batches: BatchIndex, times: Times, cause: Cause, ledger: Ledger
) -> EpisodeEvidence:
    """Take the records alone, where there is nothing to hold them against but the trail."""
    calls = CallFacts()
    for item in stored_records(folder, None, ledger):
        if item.record is not None:
            calls.note(item.record)
            times.note_record(item.record, item.where)
            batches.note_record(item.position, item.raw, item.record)
    for check in (*_OF_RECORDS, CheckId.OUTCOMES, CheckId.SCORES):
        ledger.cannot(check, cause)
    return EpisodeEvidence(calls=calls, scoring=cause, aggregate=cause, sanitiser=NOTHING)


def check_episodes(
    folder: BundleFolder, sources: EpisodeSources, ledger: Ledger
) -> EpisodeEvidence:
    """Make the checks of each record and score line; `sanitised-input` ends with its checker."""
    return _EpisodePass(folder, sources, ledger).run()


class _EpisodePass:
    """The state of the pass: the next record, and the scoring or what ended it."""

    def __init__(self, folder: BundleFolder, sources: EpisodeSources, ledger: Ledger) -> None:
        self._folder = folder
        self._sources = sources
        self._ledger = ledger
        self._calls = CallFacts()
        self._outcomes: list[EpisodeOutcome] = []
        self._records = stored_records(folder, sources.ground_truth.total, ledger)
        self._next = next(self._records, None)
        self._scoring: EpisodeScoring | Cause = episode_scoring(
            sources.scorers, sources.ground_truth, sources.plan, sources.draws
        )

    def run(self) -> EpisodeEvidence:
        sources, ledger = self._sources, self._ledger
        total = sources.ground_truth.total
        failures, threshold = 0, sources.plan.failure_threshold
        most_failures = None if threshold is None else threshold * total
        lines = ScoreLines(self._folder, ledger)
        read = 0
        for episode in episodes(self._folder, ledger):
            read += 1
            if read % PROGRESS_STEP == 0:
                sources.progress(read)
            if most_failures is not None and failures > most_failures:
                self._discard(episode)
                answer, outcomes = None, _NOT_RUN
            else:
                answer = self._answer(episode)
                outcomes = frozenset() if answer is None else _OUTCOMES[answer.status]
            line = None
            if isinstance(self._scoring, EpisodeScoring):
                line, outcome = self._scoring.line(episode, answer)
                self._outcomes.append(outcome)
                outcomes = frozenset({outcome})
            lines.take(episode, outcomes, line)
            failures += EpisodeOutcome.MISSING in outcomes
        sources.progress(read)
        if read != total:
            self._give_up("the dataset cannot be read to its end", *_OF_RECORDS)
        self._take_rest(flagged=read == total)
        return self._finish(lines)

    def _answer(self, episode: GroundTruthEpisode) -> EpisodeAnswer | None:
        """Return the answer in the record of an episode that was run; note where none is."""
        item = self._take_up_to(episode.seq)
        if item is None:
            expected = f"a record of episode {episode.seq}"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, "none")
            self._give_up(f"there is no record of episode {episode.seq}", *_OF_RECORDS[1:])
            return None
        if item.record is None:
            self._give_up(_unreadable(episode), *_OF_RECORDS[1:])
            return None
        self._calls.note(item.record)
        answer = self._sources.checker.check(item.record, episode, item.where)
        if answer is None:
            self._give_up(f"the record of episode {episode.seq} holds no answer")
        return answer

    def _discard(self, episode: GroundTruthEpisode) -> None:
        """Check the record of an episode behind the end of the run, if it has one."""
        item = self._take_up_to(episode.seq)
        if item is None:
            return
        self._calls.discarded += 1
        if self._sources.plan.max_concurrency == 1:
            expected = f"no record of episode {episode.seq}: the run had ended"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)
        if item.record is None:
            for check in _OF_RECORDS[1:]:
                self._ledger.cannot(check, Cause(_unreadable(episode)))
        else:
            self._sources.checker.check(item.record, episode, item.where)

    def _give_up(self, text: str, *checks: CheckId) -> None:
        """Stop scoring, and `checks`: what comes now would rest on a gap.

        A defect outweighs a scorer that is not to be had.
        """
        for check in checks:
            self._ledger.cannot(check, Cause(text))
        if isinstance(self._scoring, EpisodeScoring) or self._scoring.unavailable:
            self._scoring = Cause(text)

    def _take_up_to(self, position: int) -> RecordItem | None:
        """Take the record at `position` and return it; what lies before it is misplaced."""
        while self._next is not None and self._next.position <= position:
            item = self._take(self._next)
            if item.position == position:
                return item
            self._refuse_misplaced(item)
        return None

    def _take_rest(self, *, flagged: bool) -> None:
        """Take the records that no episode asked for."""
        while self._next is not None:
            item = self._take(self._next)
            if flagged:
                self._refuse_misplaced(item)
            elif item.record is not None:
                self._calls.note(item.record)

    def _take(self, item: RecordItem) -> RecordItem:
        self._next = next(self._records, None)
        if item.record is not None:
            self._sources.batches.note_record(item.position, item.raw, item.record)
            self._sources.times.note_record(item.record, item.where)
        return item

    def _refuse_misplaced(self, item: RecordItem) -> None:
        if item.record is not None:
            self._calls.note(item.record)
        expected = "records of episodes of the dataset only"
        self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)

    def _finish(self, lines: ScoreLines) -> EpisodeEvidence:
        recorded, mismatches = self._calls.recorded, self._calls.version_mismatches
        self._ledger.completed(CheckId.INVOCATIONS, f"{recorded + self._calls.discarded} records")
        self._ledger.completed(CheckId.VERSION_PINS, f"{mismatches} mismatches")
        self._sources.checker.finish()
        scoring = self._scoring
        lines.finish(scoring if isinstance(scoring, Cause) else None)
        return EpisodeEvidence(
            calls=self._calls,
            scoring=scoring,
            aggregate=scoring if isinstance(scoring, Cause) else NOT_AGGREGATED,
            sanitiser=self._sources.checker.sanitiser,
            outcomes=self._outcomes,
            other_runner=self._sources.checker.other_runner,
        )


def _unreadable(episode: GroundTruthEpisode) -> str:
    return f"the record of episode {episode.seq} cannot be read"
