"""The score files of a bundle, checked line by line and whole against what is recomputed.

Source: docs/contract/evidence.md §4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from theatre.engine.bundle_check.audit_trail import Times
from theatre.engine.bundle_check.batches import BatchIndex, CallFacts, RecordItem, stored_records
from theatre.engine.bundle_check.commitment import GroundTruth, episodes
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    PER_EPISODE,
    BundleFolder,
    Documents,
    canonical_object,
)
from theatre.engine.bundle_check.human_scores import Panel
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.records import RecordChecker
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    first_difference,
    render,
    same_json,
)
from theatre.engine.bundle_check.scorers import (
    EpisodeAnswer,
    EpisodeScoring,
    PinnedScorers,
    ResultsHash,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.coin import Draws
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode, InvocationStatus

BOUND_TOLERANCE = 2e-6
"""How far an interval's bound may lie from the recomputed one (docs/contract/scoring.md §5)."""

_ROUNDING = 1e-12


class ScoreLines:
    """Takes the episodes in dataset order; feeds `outcomes` and `scores`."""

    def __init__(self, folder: BundleFolder, ledger: Ledger) -> None:
        self._ledger = ledger
        self._raw = self._read_stored(folder)
        self._number = 0

    def take(
        self,
        episode: GroundTruthEpisode,
        outcomes: frozenset[EpisodeOutcome],
        line: bytes | None,
    ) -> None:
        """Compare the next stored line: with `line`, or where that is unknown by its outcome.

        Without any `outcomes` nothing is known of it.
        """
        self._number += 1
        raw = next(self._raw, None)
        where = f"{PER_EPISODE} line {self._number}"
        if raw is None:
            for check in (CheckId.OUTCOMES, CheckId.SCORES):
                self._ledger.wrong(check, f"{where} for episode {episode.seq}", "none")
        elif line is None or raw != line:
            self._compare(raw, where, episode, outcomes, line)

    def finish(self, cause: Cause | None) -> None:
        """Note lines behind the last episode; `cause` says why scores were not recomputed."""
        known = cause is None or cause.unavailable
        extra = sum(1 for _ in self._raw) if known else 0
        for check in (CheckId.OUTCOMES, CheckId.SCORES):
            if extra:
                self._ledger.wrong(check, f"{self._number} lines", f"{extra} more")
        if cause is not None:
            self._ledger.cannot(CheckId.SCORES, cause)
        if cause is None or known:
            self._ledger.completed(CheckId.OUTCOMES, f"{self._number} episodes")
        else:
            self._ledger.cannot(CheckId.OUTCOMES, cause)
        self._ledger.completed(CheckId.SCORES, f"{self._number} lines")

    def _compare(
        self,
        raw: bytes,
        where: str,
        episode: GroundTruthEpisode,
        outcomes: frozenset[EpisodeOutcome],
        line: bytes | None,
    ) -> None:
        try:
            seen = canonical_object(raw, where, self._ledger)
        except DefectError as defect:
            for check in (CheckId.OUTCOMES, CheckId.SCORES):
                self._ledger.wrong(check, defect.expected, defect.actual)
            return
        outcome = at(seen, "outcome")
        if outcomes and not (isinstance(outcome, str) and outcome in outcomes):
            expected = f"{where}: {' or '.join(sorted(outcomes))}"
            self._ledger.wrong(CheckId.OUTCOMES, expected, render(outcome))
        if line is not None:
            self._note_difference(where, parse_object(line), seen)
        elif (at(seen, "seq"), at(seen, "episode_id")) != (episode.seq, episode.episode_id):
            self._ledger.wrong(CheckId.SCORES, f"{where} of {episode.episode_id}", render(seen))

    def _note_difference(self, where: str, expected: JsonObject, seen: JsonObject) -> None:
        found = first_difference(expected, seen)
        if found is None:
            self._ledger.wrong(CheckId.SCORES, f"{where} byte for byte", "other bytes")
            return
        place = f"{where}{found.pointer}"
        self._ledger.wrong(
            CheckId.SCORES, f"{place} {render(found.expected)}", render(found.actual)
        )

    def _read_stored(self, folder: BundleFolder) -> Iterator[bytes]:
        try:
            yield from folder.lines(PER_EPISODE)
        except DefectError as defect:
            self._ledger.wrong(CheckId.SCORES, defect.expected, defect.actual)


def check_aggregate(documents: Documents, recomputed: JsonObject | Cause, ledger: Ledger) -> None:
    """Make the check `aggregate`."""
    if isinstance(recomputed, Cause):
        ledger.cannot(CheckId.AGGREGATE, recomputed)
        return
    seen = documents.at(AGGREGATE)
    intervals = at(seen, "score_intervals")
    expected: JsonObject = dict(recomputed)
    if _near(recomputed["score_intervals"], intervals):
        expected["score_intervals"] = cast("JsonValue", intervals)
    ledger.compare(CheckId.AGGREGATE, "aggregate.json", expected, seen)
    ledger.completed(CheckId.AGGREGATE, f"composite {render(recomputed['composite_score'])}")


def _near(expected: JsonValue, actual: JsonValue | Nothing) -> bool:
    """Return whether all intervals agree: bounds within the tolerance, everything else exactly."""
    names = at(expected), at(actual)
    if not all(isinstance(value, dict) for value in names):
        return False
    wanted, found = cast("JsonObject", expected), cast("JsonObject", actual)
    return wanted.keys() == found.keys() and all(
        near_interval(interval, found[name]) for name, interval in wanted.items()
    )


def near_interval(expected: JsonValue, actual: JsonValue | Nothing) -> bool:
    """Return whether one interval agrees: bounds within the tolerance, everything else exactly."""
    moved = dict(cast("JsonObject", expected))
    for bound in ("low", "high"):
        wanted, found = at(expected, bound), at(actual, bound)
        if _is_number(wanted) and _is_number(found):
            distance = abs(cast("float", wanted) - cast("float", found))
            if distance <= BOUND_TOLERANCE + _ROUNDING:
                moved[bound] = cast("JsonValue", found)
    return same_json(moved, actual)


def _is_number(value: JsonValue | Nothing) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_results_hash(folder: BundleFolder, documents: Documents, ledger: Ledger) -> str | Nothing:
    """Make the check `results-hash` over the score files as they are; return that hash."""
    aggregate = documents.get(AGGREGATE)
    if aggregate is None:
        ledger.cannot(CheckId.RESULTS_HASH, Cause(f"{AGGREGATE} cannot be read"))
        return NOTHING
    hasher = ResultsHash()
    try:
        for chunk in folder.chunks(PER_EPISODE):
            hasher.add(chunk)
    except DefectError as defect:
        ledger.wrong(CheckId.RESULTS_HASH, defect.expected, defect.actual)
        return NOTHING
    results_hash = hasher.of(aggregate)
    for path in (AGGREGATE, documents.conclusion):
        seen = documents.at(path, "results_hash")
        ledger.compare(CheckId.RESULTS_HASH, f"results_hash of {path}", results_hash, seen)
    ledger.completed(CheckId.RESULTS_HASH, results_hash)
    return results_hash


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
