"""The lines of `scores/per_episode.jsonl`, each held against what is recomputed for it."""

from __future__ import annotations

from collections.abc import Iterator

from theatre.engine.bundle_check.reading.documents import PER_EPISODE, canonical_object
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import DefectError, at, first_difference, shown
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode


class ScoreLines:
    """Takes the episodes in dataset order; feeds `outcomes` and `scores`."""

    def __init__(self, folder: BundleFolder, ledger: Ledger) -> None:
        self._ledger = ledger
        self._raw = self._stored(folder)
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
            self._ledger.wrong(CheckId.OUTCOMES, expected, shown(outcome))
        if line is not None:
            self._note_difference(where, parse_object(line), seen)
        elif (at(seen, "seq"), at(seen, "episode_id")) != (episode.seq, episode.episode_id):
            self._ledger.wrong(CheckId.SCORES, f"{where} of {episode.episode_id}", shown(seen))

    def _note_difference(self, where: str, expected: JsonObject, seen: JsonObject) -> None:
        found = first_difference(expected, seen)
        if found is None:
            self._ledger.wrong(CheckId.SCORES, f"{where} byte for byte", "other bytes")
            return
        place = f"{where}{found.pointer}"
        self._ledger.wrong(CheckId.SCORES, f"{place} {shown(found.expected)}", shown(found.actual))

    def _stored(self, folder: BundleFolder) -> Iterator[bytes]:
        try:
            yield from folder.lines(PER_EPISODE)
        except DefectError as defect:
            self._ledger.wrong(CheckId.SCORES, defect.expected, defect.actual)
