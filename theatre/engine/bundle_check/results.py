"""The score files of a bundle, checked line by line and whole against what is recomputed.

Source: docs/contract/evidence.md §4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import cast

from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    PER_EPISODE,
    BundleFolder,
    Documents,
    canonical_object,
)
from theatre.engine.bundle_check.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    first_difference,
    render,
    same_json,
)
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode

_NOT_HASHED = frozenset({"results_hash", "score_intervals"})

BOUND_TOLERANCE = 2e-6
"""How far an interval's bound may lie from the recomputed one (docs/contract/scoring.md §5)."""

_ROUNDING = 1e-12


class ResultsHash:
    """Takes the lines as they come; then it gives the hash with any aggregate behind them."""

    def __init__(self) -> None:
        self._lines = hashlib.sha256()

    def add(self, lines: bytes) -> None:
        """Take the next bytes of the lines, line feeds included."""
        self._lines.update(lines)

    def of(self, aggregate: JsonObject) -> str:
        """Return the hash of the lines so far and `aggregate`."""
        hasher = self._lines.copy()
        hashed = {key: value for key, value in aggregate.items() if key not in _NOT_HASHED}
        hasher.update(canonical_bytes(hashed))
        return hasher.hexdigest()

    def within(self, aggregate: JsonObject) -> JsonObject:
        """Return `aggregate` with its own hash."""
        return aggregate | {"results_hash": self.of(aggregate)}


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
