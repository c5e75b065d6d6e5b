"""The run: records, outcomes and scores, read side by side once, and held against what is stated.

Recomputes every outcome and score from the recorded answers (docs/contract/evidence.md §4, §8). Of
an episode only its outcome is kept, so memory does not grow with the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import cast

from theatre.engine.bundle_check.batches import BatchIndex, CallFacts, RecordItem, stored_records
from theatre.engine.bundle_check.commitment import check_ground_truth, episodes, pinned_scorers
from theatre.engine.bundle_check.evidence import Evidence, GroundTruth
from theatre.engine.bundle_check.folder import AGGREGATE, PER_EPISODE, canonical_object
from theatre.engine.bundle_check.human_scores import Panel, check_human_scores
from theatre.engine.bundle_check.plain_records import episode_line, merkle_root, salted_leaf
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
    is_number,
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

NO_TEMPLATE = Cause("no valid template says what was committed")
PROGRESS_STEP = 100
"""A caller hears of the pass, and may end it, every so many episodes."""

_OUTCOMES = {
    InvocationStatus.SUCCESS: (EpisodeOutcome.SCORED, EpisodeOutcome.UNSCORED),
    InvocationStatus.REFUSED: (EpisodeOutcome.EXCLUDED,),
    InvocationStatus.TIMEOUT: (EpisodeOutcome.MISSING,),
    InvocationStatus.ERROR: (EpisodeOutcome.MISSING,),
}
_OF_RECORDS = (CheckId.INVOCATIONS, CheckId.SANITISED_INPUT, CheckId.VERSION_PINS)
_OF_LINES = (CheckId.OUTCOMES, CheckId.SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """The result of the pass: the facts of the calls, and what was scored or why nothing was.

    `sanitiser` is its version by the records, null where none was committed. `outcomes` has one
    for each episode of the dataset where all were scored. `aggregate` and `panels`, by step_id,
    come with people's scores. `other_runner` says why the installed runner must play nothing.
    """

    calls: CallFacts
    scoring: EpisodeScoring | Cause
    aggregate: JsonObject | Cause
    ground_truth: GroundTruth | None = None
    sanitiser: JsonValue | Nothing = NOTHING
    outcomes: Sequence[EpisodeOutcome] = ()
    panels: Mapping[str, Panel] = field(default_factory=dict)
    episode_root: str | Nothing = NOTHING
    other_runner: Cause | None = None


def check_run(evidence: Evidence) -> RunEvidence:
    """Make the checks of datasets, scorers, records and people; return their results."""
    plan, ledger = evidence.plan, evidence.ledger
    batches = BatchIndex(evidence.trail.batches, ledger)
    if plan is None:
        for check in (CheckId.DATASETS, CheckId.SCORERS, CheckId.HUMAN_SCORES):
            ledger.cannot(check, NO_TEMPLATE)
        run = _unread(evidence, batches, NO_TEMPLATE)
    else:
        run = _check_committed_run(evidence, plan, batches)
        ledger.completed(CheckId.DATASETS, f"{len(plan.datasets)} files")
        scoring = run.scoring
        columns = scoring if isinstance(scoring, Cause) else scoring.columns
        panels = check_human_scores(evidence, plan, columns)
        run = replace(run, panels=panels)
        if isinstance(scoring, EpisodeScoring):
            run = replace(run, aggregate=scoring.aggregate(list(panels.values())))
    batches.finish(readable=evidence.trail.readable)
    return run


def _check_committed_run(
    evidence: Evidence, plan: CommittedPlan, batches: BatchIndex
) -> RunEvidence:
    ground_truth = check_ground_truth(evidence.folder, plan, evidence.ledger)
    scorers = pinned_scorers(evidence, plan)
    if ground_truth is None:
        return _unread(evidence, batches, Cause("the replay dataset cannot be read"))
    if isinstance(evidence.theatre_id, Nothing):
        cause = Cause("no document names the theatre")
        return replace(_unread(evidence, batches, cause), ground_truth=ground_truth)
    if isinstance(evidence.coin, Cause):
        return replace(_unread(evidence, batches, evidence.coin), ground_truth=ground_truth)
    draws = Draws(evidence.coin, plan.commitment_hash, evidence.trail.run_nonce)
    # Of what is wrong with the dataset the pass over its episodes tells.
    ids = (episode.episode_id for episode in episodes(evidence.folder, Ledger()))
    checker = RecordChecker(
        evidence.installed,
        plan,
        evidence.ledger,
        theatre_id=evidence.theatre_id,
        adapters=evidence.trail.detail("activated", "adapters"),
        draws=draws,
        repeated=draws.repeated(ids, plan.deterministic_sample),
        scorers=scorers,
        truth=ground_truth,
    )
    return _EpisodePass(evidence, plan, ground_truth, checker, batches, scorers, draws).run()


def _unread(evidence: Evidence, batches: BatchIndex, cause: Cause) -> RunEvidence:
    """Take the records alone, where there is nothing to hold them against but the trail."""
    calls = CallFacts()
    for item in stored_records(evidence.folder, None, evidence.ledger):
        if item.record is not None:
            calls.note(item.record)
            evidence.times.note_record(item.record, item.where)
            batches.note_record(item.position, item.raw, item.record)
    for check in (*_OF_RECORDS, *_OF_LINES):
        evidence.ledger.cannot(check, cause)
    return RunEvidence(calls=calls, scoring=cause, aggregate=cause)


class _EpisodePass:
    """The state of the pass: the next record, and the scoring or what ended it."""

    def __init__(
        self,
        evidence: Evidence,
        plan: CommittedPlan,
        ground_truth: GroundTruth,
        checker: RecordChecker,
        batches: BatchIndex,
        scorers: PinnedScorers | Cause,
        draws: Draws,
    ) -> None:
        self._evidence = evidence
        self._ledger = evidence.ledger
        self._plan = plan
        self._ground_truth = ground_truth
        self._checker = checker
        self._batches = batches
        self._calls = CallFacts(is_repeated=plan.repeats > 1)
        self._draws = draws
        self._lines, self._leaves = ScoreLines(evidence), list[bytes]()
        self._record_line: bytes | None = None
        self._outcomes: list[EpisodeOutcome] = []
        self._records = stored_records(evidence.folder, ground_truth.total, evidence.ledger)
        self._next = next(self._records, None)
        gold = ground_truth.gold
        self._scoring: EpisodeScoring | Cause
        if isinstance(gold, Cause):
            self._scoring = gold
        elif isinstance(scorers, Cause):
            self._scoring = scorers
        else:
            self._scoring = EpisodeScoring(scorers, gold, plan, draws, ground_truth.total)

    def run(self) -> RunEvidence:
        total, progress = self._ground_truth.total, self._evidence.progress
        failures, threshold = 0, self._plan.failure_threshold
        most_failures = None if threshold is None else floor(threshold * total * self._plan.repeats)
        read = 0
        for episode in episodes(self._evidence.folder, self._ledger):
            read += 1
            if read % PROGRESS_STEP == 0:
                progress(read)
            ended = most_failures is not None and failures > most_failures
            answer = None
            if ended:
                self._discard(episode)
            else:
                answer = self._answer(episode)
            stored = self._take_line(episode, answer, ended=ended)
            if stored is not None and not isinstance(self._ground_truth.gold, Cause):
                label = self._ground_truth.gold.get(episode.episode_id)
                line = episode_line(episode.line.decode(), label, self._record_line, stored)
                salt = self._draws.salt(episode.episode_id)
                self._leaves.append(salted_leaf(salt, line))
            failures += 0 if answer is None else answer.failures
        progress(read)
        if read != total:
            self._give_up("the dataset cannot be read to its end", *_OF_RECORDS)
        while self._next is not None:  # records that no episode asked for
            item = self._take(self._next)
            if read == total:
                self._refuse_misplaced(item)
            elif item.record is not None:
                self._calls.note(item.record)
        return self._finish()

    def _take_line(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None, *, ended: bool
    ) -> bytes | None:
        """Score an episode, and hold its stored line to that; return the stored line."""
        if isinstance(self._scoring, EpisodeScoring):
            line, outcome = self._scoring.line(episode, answer)
            self._outcomes.append(outcome)
            return self._lines.take(episode, line, outcome)
        known = (EpisodeOutcome.NOT_RUN,) * ended if answer is None else _OUTCOMES[answer.status]
        return self._lines.take(episode, None, *known)

    def _answer(self, episode: GroundTruthEpisode) -> EpisodeAnswer | None:
        """Return the answer in the record of an episode that was run; note where none is."""
        item = self._take_up_to(episode.seq)
        if item is None:
            expected = f"a record of episode {episode.seq}"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, "none")
            self._give_up(f"there is no record of episode {episode.seq}", *_OF_RECORDS[1:])
            return None
        if item.record is None:
            self._give_up(f"the record of episode {episode.seq} cannot be read", *_OF_RECORDS[1:])
            return None
        self._calls.note(item.record)
        answer = self._checker.check(item.record, episode, item.where)
        if answer is None:
            self._give_up(f"the record of episode {episode.seq} holds no answer")
        return answer

    def _discard(self, episode: GroundTruthEpisode) -> None:
        """Check the record of an episode behind the end of the run, if it has one."""
        item = self._take_up_to(episode.seq)
        if item is None:
            return
        self._calls.discarded += 1
        if self._plan.max_concurrency == self._plan.repeats == 1:
            # One at a time, none can have been under way: an answer too many was picked from.
            expected = f"no record of episode {episode.seq}: the run had ended"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)
        if item.record is None:
            for check in _OF_RECORDS[1:]:
                cause = Cause(f"the record of episode {episode.seq} cannot be read")
                self._ledger.cannot(check, cause)
        else:
            self._checker.check(item.record, episode, item.where)

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
        self._record_line = None
        while self._next is not None and self._next.position <= position:
            item = self._take(self._next)
            if item.position == position:
                self._record_line = item.raw
                return item
            self._refuse_misplaced(item)
        return None

    def _take(self, item: RecordItem) -> RecordItem:
        self._next = next(self._records, None)
        if item.record is not None:
            self._batches.note_record(item.position, item.raw, item.record)
            self._evidence.times.note_record(item.record, item.where)
        return item

    def _refuse_misplaced(self, item: RecordItem) -> None:
        if item.record is not None:
            self._calls.note(item.record)
        expected = "records of episodes of the dataset only"
        self._ledger.wrong(CheckId.INVOCATIONS, expected, item.where)

    def _finish(self) -> RunEvidence:
        calls, scoring = self._calls, self._scoring
        self._ledger.completed(CheckId.INVOCATIONS, f"{calls.recorded + calls.discarded} records")
        self._ledger.completed(CheckId.VERSION_PINS, f"{calls.version_mismatches} mismatches")
        self._checker.finish()
        self._lines.finish(scoring if isinstance(scoring, Cause) else None)
        return RunEvidence(
            calls=calls,
            scoring=scoring,
            aggregate=scoring if isinstance(scoring, Cause) else {},
            ground_truth=self._ground_truth,
            sanitiser=self._checker.sanitiser,
            outcomes=self._outcomes,
            episode_root=merkle_root(self._leaves)
            if 0 < len(self._leaves) == self._ground_truth.total
            else NOTHING,
            other_runner=self._checker.other_runner,
        )


class ScoreLines:
    """Takes the episodes in dataset order; feeds `outcomes` and `scores`."""

    def __init__(self, evidence: Evidence) -> None:
        self._ledger = evidence.ledger
        self._raw = evidence.folder.lines(PER_EPISODE)
        self._number = 0

    def take(
        self, episode: GroundTruthEpisode, line: bytes | None, *outcomes: EpisodeOutcome
    ) -> bytes | None:
        """Compare the next stored line: with `line`, or where that is unknown by its outcome.

        Without any `outcomes` nothing is known of it. Return the stored line.
        """
        self._number += 1
        raw = None
        with self._ledger.noting(CheckId.SCORES):
            raw = next(self._raw, None)
        if raw is not None and raw == line:
            return raw
        where = f"{PER_EPISODE} line {self._number}"
        if raw is None:
            for check in _OF_LINES:
                self._ledger.wrong(check, f"{where} for episode {episode.seq}", "none")
        else:
            with self._ledger.noting(*_OF_LINES):
                self._compare(raw, where, episode, line, outcomes)
        return raw

    def finish(self, cause: Cause | None) -> None:
        """Note lines behind the last episode; `cause` says why scores were not recomputed."""
        known, extra = cause is None or cause.unavailable, 0
        with self._ledger.noting(CheckId.SCORES):
            extra = sum(1 for _ in self._raw) if known else 0
        for check in _OF_LINES:
            if extra:
                self._ledger.wrong(check, f"{self._number} lines", f"{extra} more")
        if cause is not None:
            self._ledger.cannot(CheckId.SCORES, cause)
            if not known:
                self._ledger.cannot(CheckId.OUTCOMES, cause)
        self._ledger.completed(CheckId.OUTCOMES, f"{self._number} episodes")
        self._ledger.completed(CheckId.SCORES, f"{self._number} lines")

    def _compare(
        self,
        raw: bytes,
        where: str,
        episode: GroundTruthEpisode,
        line: bytes | None,
        outcomes: Sequence[EpisodeOutcome],
    ) -> None:
        ledger, seen = self._ledger, canonical_object(raw, where, self._ledger)
        outcome = at(seen, "outcome")
        if outcomes and not (isinstance(outcome, str) and outcome in outcomes):
            expected = f"{where}: {' or '.join(sorted(outcomes))}"
            ledger.wrong(CheckId.OUTCOMES, expected, render(outcome))
        if line is not None:
            wanted = parse_object(line)
            if first_difference(wanted, seen) is None:
                ledger.wrong(CheckId.SCORES, f"{where} byte for byte", "other bytes")
            ledger.compare(CheckId.SCORES, where, wanted, seen)
        elif (at(seen, "seq"), at(seen, "episode_id")) != (episode.seq, episode.episode_id):
            ledger.wrong(CheckId.SCORES, f"{where} of {episode.episode_id}", render(seen))


def check_aggregate(evidence: Evidence, recomputed: JsonObject | Cause) -> None:
    """Make the check `aggregate`."""
    ledger, seen = evidence.ledger, evidence.documents.at(AGGREGATE)
    if isinstance(recomputed, Cause):
        ledger.cannot(CheckId.AGGREGATE, recomputed)
        return
    intervals, wanted = (
        at(seen, "score_intervals"),
        cast("JsonObject", recomputed["score_intervals"]),
    )
    expected: JsonObject = dict(recomputed)
    if (
        isinstance(intervals, dict)
        and wanted.keys() == intervals.keys()
        and all(near_interval(interval, intervals[name]) for name, interval in wanted.items())
    ):
        expected["score_intervals"] = intervals
    ledger.compare(CheckId.AGGREGATE, "aggregate.json", expected, seen)
    ledger.completed(CheckId.AGGREGATE, f"composite {render(recomputed['composite_score'])}")


def near_interval(expected: JsonValue, actual: JsonValue | Nothing) -> bool:
    """Return whether one interval agrees: bounds within the tolerance, everything else exactly."""
    moved = dict(cast("JsonObject", expected))
    for bound in ("low", "high"):
        wanted, found = at(expected, bound), at(actual, bound)
        if not is_number(wanted) or not is_number(found):
            continue
        if abs(wanted - found) <= BOUND_TOLERANCE + _ROUNDING:
            moved[bound] = found
    return same_json(moved, actual)


def check_results_hash(evidence: Evidence) -> str | Nothing:
    """Make the check `results-hash` over the score files as they are; return that hash."""
    documents, ledger = evidence.documents, evidence.ledger
    aggregate, hasher = documents.get(AGGREGATE), ResultsHash()
    if aggregate is None:
        ledger.cannot(CheckId.RESULTS_HASH, Cause(f"{AGGREGATE} cannot be read"))
        return NOTHING
    try:
        for chunk in evidence.folder.chunks(PER_EPISODE):
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
