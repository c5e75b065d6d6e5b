"""One episode that was opened to a reader who has the certificate and not the bundle.

All that its line holds is checked as in a bundle, but for what the coin draws: a reader without
the coin takes the ids of calls, and the seed of an interactive episode, as the record has them.
Source: docs/disclosure.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import Tally
from theatre.engine.bundle_check.batches import Recorded
from theatre.engine.bundle_check.commitment import misfit_params, require_valid, unavailable_scorers
from theatre.engine.bundle_check.evidence import GroundTruth, Installed
from theatre.engine.bundle_check.plan import committed_plan
from theatre.engine.bundle_check.records import RecordChecker
from theatre.engine.bundle_check.report import (
    SHA256,
    Cause,
    CheckId,
    CheckStatus,
    DefectError,
    Ledger,
    at,
    render,
    require_members,
    require_same,
    same_json,
    text_members,
)
from theatre.engine.bundle_check.scorers import PinnedScorers
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import DatasetError
from theatre.engine.models import JUDGE_SEED, EpisodeOutcome, GroundTruthEpisode, read_episodes

LINE_MEMBERS: Final = frozenset({"dataset_line", "label", "record", "result"})
_MADE: Final = (
    CheckId.INVOCATIONS,
    CheckId.SANITISED_INPUT,
    CheckId.VERSION_PINS,
    CheckId.SCORES,
)


class StatedDraws(NamedTuple):
    """What the coin drew for one episode, as its record has it; `seed` is that of its runner."""

    record: Recorded
    seed: str
    by_turn: bool

    @property
    def run_nonce(self) -> bytes:
        """Return the nonce that the first call names."""
        nonce = self._text(0, "metadata", "run_nonce")
        try:
            return bytes.fromhex(nonce)
        except ValueError:
            return b""

    def alias(self, _: str) -> str:
        """Return the id under which the construct was asked first."""
        return self._text(0, "episode_id")

    def invocation_id(
        self, _: str, *, seq: int, hop: int = 0, repeat: int = 0, turn: int = 0
    ) -> str:
        """Return the id of the call at that place."""
        del seq
        if self.by_turn:
            return self._text(turn, "invocation_id")
        for number, call in enumerate(self.record.calls):
            if same_json(at(call, "hop"), hop) and same_json(at(call, "repeat"), repeat):
                return self._text(number, "invocation_id")
        return ""

    def play_seed(self, _: str) -> str:
        """Return the seed that was opened with the episode."""
        return self.seed

    def judge_seed(self, _: str, repeat: int | None = None) -> str:
        """Return the seed of what a judge was shown."""
        found = at(self.record.document, JUDGE_SEED, *(() if repeat is None else (repeat,)))
        return found if isinstance(found, str) else ""

    def _text(self, number: int, *path: str) -> str:
        calls = self.record.calls
        found = at(calls[number], "request", *path) if number < len(calls) else None
        return found if isinstance(found, str) else ""


class OpenedResult(NamedTuple):
    """What became of an opened episode: neither where all of it was computed again."""

    seq: int
    episode_id: str
    false: str | None = None
    """What in it does not follow from the rest."""
    unavailable: str | None = None
    """Why it could not be computed again: what is not installed."""

    @property
    def recomputed(self) -> bool:
        """Return whether all of it was computed again, and is as stated."""
        return self.false is None and self.unavailable is None


class OpenedEpisodes:
    """Checks opened episodes of one run against its committed template.

    Raises DefectError for a template that is none, or beyond this release.
    """

    def __init__(
        self, template: JsonObject, installed: Installed, *, theatre_id: str, total: int
    ) -> None:
        require_valid(template, installed.registry)
        self._plan = committed_plan(template, runners=installed.runners)
        self._installed = installed
        self._theatre_id = theatre_id
        self._total = total
        self._runner = installed.runners.get(self._plan.episode_runner)
        used = sorted(set(self._plan.scorers.values()))
        pins = text_members(at(template, "scorer_pins"))
        cause = unavailable_scorers(used, pins, installed.scorers)
        cause = cause or misfit_params(self._plan, installed.scorers, installed.registry)
        self._scorers = cause or PinnedScorers(self._plan, installed.scorers)

    @property
    def commitment_hash(self) -> str:
        """Return the hash that the template commits to."""
        return self._plan.commitment_hash

    def check(self, line: JsonObject, *, seq: int, seed: str = "") -> OpenedResult:
        """Compute what is open of episode `seq` again."""
        name = at(line, "result", "episode_id")
        episode_id = name if isinstance(name, str) else render(name)
        ledger = Ledger()
        try:
            with ledger.noting(CheckId.SCORES):
                self._check(line, seq, seed, ledger)
        except DatasetError as error:
            ledger.wrong(CheckId.SCORES, "a line of a dataset", str(error))
        for check in _MADE:
            ledger.completed(check, "")
        made = [check for check in ledger.report().checks if check.id in {*_MADE}]
        wrong = [c for c in made if c.status is CheckStatus.FAIL]
        if wrong:
            return OpenedResult(
                seq, episode_id, false=f"expected {wrong[0].expected}, got {wrong[0].actual}"
            )
        lacking = [c.actual for c in made if c.status is CheckStatus.UNAVAILABLE]
        return OpenedResult(seq, episode_id, unavailable=lacking[0] if lacking else None)

    def _check(self, line: JsonObject, seq: int, seed: str, ledger: Ledger) -> None:
        require_members(line, LINE_MEMBERS, "the line of an episode")
        if not (SHA256.fullmatch(seed) if self._runner is not None else seed == ""):
            raise DefectError("a seed where a runner plays, and none else", repr(seed[:80]))
        (episode,) = read_episodes([_text(line["dataset_line"]).encode()])
        episode = replace(episode, seq=seq)
        result, label = line["result"], _object_or_null(line["label"], "label")
        require_same("seq of the result", seq, at(result, "seq"))
        require_same("episode_id of the result", episode.episode_id, at(result, "episode_id"))
        if line["record"] is None or at(result, "outcome") == EpisodeOutcome.NOT_RUN.value:
            # Whether the run had ended by then, only the whole of it says.
            require_same("outcome without an answer", "not_run", at(result, "outcome"))
        scorers = self._scorers
        if isinstance(scorers, Cause):
            ledger.cannot(CheckId.SCORES, scorers)
            return
        answer = None
        if line["record"] is not None:
            record = Recorded(_object(line["record"], "record"))
            checker = self._checker(record, episode, label, seed, ledger)
            answer = checker.check(record, episode, f"episode {seq}")
            if answer is None:
                raise DefectError(f"an answer in the record of episode {seq}", "none")
            if checker.other_runner is not None:
                ledger.cannot(CheckId.SCORES, checker.other_runner)
        if at(result, "outcome") == EpisodeOutcome.NOT_RUN.value:
            answer = None
        tally = Tally(self._plan.document, self._plan.commitment_hash, self._total)
        held = scorers.expected(episode, label)
        computed = tally.add(
            seq=seq,
            episode_id=episode.episode_id,
            status=None if answer is None else answer.status.value,
            results=scorers.results(episode, answer, held),
            cluster_key=episode.cluster_key,
            confidence=None if answer is None else answer.confidence,
            repeats=scorers.results_of_repeats(episode, answer, held),
        )
        ledger.compare(CheckId.SCORES, "the result", computed, result)

    def _checker(
        self,
        record: Recorded,
        episode: GroundTruthEpisode,
        label: JsonObject | None,
        seed: str,
        ledger: Ledger,
    ) -> RecordChecker:
        gold: Mapping[str, JsonObject] = {} if label is None else {episode.episode_id: label}
        adapters: JsonObject = {
            hop.construct_id: adapter
            for hop in self._plan.hops
            for call in record.calls
            if at(call, "construct_id") == hop.construct_id
            and isinstance(adapter := at(call, "adapter"), str)
        }
        return RecordChecker(
            self._installed,
            self._plan,
            ledger,
            theatre_id=self._theatre_id,
            adapters=adapters,
            draws=StatedDraws(record, seed, self._runner is not None),
            repeated=frozenset({episode.episode_id} if record.repeated else ()),
            scorers=self._scorers,
            truth=GroundTruth(total=1, gold=gold),
        )


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise DefectError("dataset_line as a text", render(value))
    return value


def _object(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, dict):
        raise DefectError(f"{what} as an object", render(value))
    return value


def _object_or_null(value: JsonValue, what: str) -> JsonObject | None:
    return None if value is None else _object(value, what)
