"""One invocation record: the committed calls in their order, and an answer that may count.

Source: docs/contract/evidence.md §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from theatre.engine.bundle_check.batches import STATUSES, Recorded
from theatre.engine.bundle_check.calls import OUTPUT_SPEC, CallChecker, CallPlace, Drawn
from theatre.engine.bundle_check.evidence import GroundTruth, Installed
from theatre.engine.bundle_check.plan import CommittedHop, CommittedPlan, SanitisePolicy
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    require_members,
    require_same,
    same_json,
)
from theatre.engine.bundle_check.scorers import EpisodeAnswer, PinnedScorers
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.errors import UnaskedError
from theatre.engine.models import (
    EPISODE_RESULT,
    FIRST,
    JUDGE_SEED,
    JUDGEMENTS,
    SECOND,
    EpisodeRecord,
    EpisodeRunner,
    GroundTruthEpisode,
    InputSanitiser,
    InvocationStatus,
    Judgement,
    PlayedRecord,
    Turn,
    members_of,
    replay_judgement,
    turn_of,
)

# What a construct was sent in place of the dataset's text, recomputed.
#
# The sanitiser is the installed one, given by the caller as scorers are: one of another version
# than the recorded one makes the check unavailable, and what needs no sanitiser is still checked.


_IDENTITY = ("sanitiser_version", "tables_sha256")
_MEMBERS = frozenset(
    {
        *_IDENTITY,
        "role_markers",
        "raw_fields",
        "raw_sha256",
        "sent_sha256",
        "counts",
        "fields_changed",
        "fields",
        "wrong_keys",
    }
)


class SentInput(NamedTuple):
    """The input that a chain must have got, and whether it could be sent at all."""

    value: JsonValue
    sendable: bool = True


class SanitisingCheck:
    """Makes the check `sanitised-input`, record by record."""

    def __init__(
        self, policy: SanitisePolicy | None, sanitiser: InputSanitiser | None, ledger: Ledger
    ) -> None:
        self._policy = policy
        self._sanitiser = sanitiser
        self._ledger = ledger
        self._installed: list[str] | None = None
        if self._sanitiser is not None:
            record = self._sanitiser.sanitise({}, role_markers="break", raw_fields=()).record
            self._installed = [str(record[name]) for name in _IDENTITY]
        self._recorded: list[JsonValue] = []
        self._records = 0

    @property
    def version(self) -> JsonValue | Nothing:
        """Return the sanitiser that the records name: null for none, NOTHING where none does."""
        return None if self._policy is None else at(self._recorded, 0)

    def sent(self, record: Recorded, episode: GroundTruthEpisode, where: str) -> SentInput:
        """Check what `record` says was sent against `episode`; return what the calls must hold."""
        self._records += 1
        policy, seen = self._policy, at(record.document, "sanitised")
        if policy is None:
            sent = SentInput(episode.input_data)
            self._compare(where, "sanitised", None, seen)
        elif self._is_another(seen, where) or self._sanitiser is None:
            sent = self._read_recorded(policy, record, episode, where)
        else:
            made = self._sanitiser.sanitise(
                episode.input_data, role_markers=policy.role_markers, raw_fields=policy.raw_fields
            )
            self._compare(where, "sanitised", made.record, seen)
            sent = SentInput(made.value, sendable=not made.wrong_keys)
        # The text of each call is the sanitised one exactly if the call says so.
        for call in record.calls:
            flag = at(call, "request", "metadata", "sanitised")
            self._compare(where, "metadata/sanitised", policy is not None, flag)
            if policy is not None:
                self._compare(where, "the sanitised input", sent.value, _episode_input(call))
        return sent

    def finish(self) -> None:
        """Complete the check, all records seen."""
        summary = "none was committed"
        if self._policy is not None:
            summary = f"{self._records} inputs by {render(self.version)}"
        self._ledger.completed(CheckId.SANITISED_INPUT, summary)

    def _is_another(self, seen: JsonValue | Nothing, where: str) -> bool:
        """Return whether a record names a sanitiser that is not the installed one.

        Every record must name the same; one that names none is checked against the installed.
        """
        named = [value for value in map(partial(at, seen), _IDENTITY) if isinstance(value, str)]
        if len(named) != len(_IDENTITY):
            return False
        found: list[JsonValue] = [*named]
        self._recorded = self._recorded or found
        self._compare(where, "the sanitiser of all records", self._recorded, found)
        if named == self._installed:
            return False
        installed = " ".join(self._installed or ("none",))
        text = f"sanitiser {' '.join(named)} is recorded and {installed} installed"
        self._ledger.cannot(CheckId.SANITISED_INPUT, Cause(text, unavailable=True))
        return True

    def _read_recorded(
        self, policy: SanitisePolicy, record: Recorded, episode: GroundTruthEpisode, where: str
    ) -> SentInput:
        """Check what needs no sanitiser; take the input that the record itself holds."""
        first = record.calls[0] if record.calls else NOTHING
        seen, value = at(record.document, "sanitised"), _episode_input(first)
        value = episode.input_data if isinstance(value, Nothing) else value
        needed: JsonObject = {
            "role_markers": policy.role_markers,
            "raw_fields": list(policy.raw_fields),
            "raw_sha256": canonical_sha256(episode.input_data),
            "sent_sha256": canonical_sha256(value),
        }
        members = seen.keys() if isinstance(seen, dict) else set()
        self._compare(where, "its members", [*sorted(_MEMBERS)], [*sorted(members)])
        for name, expected in needed.items():
            self._compare(where, f"sanitised/{name}", expected, at(seen, name))
        return SentInput(value, sendable=at(seen, "wrong_keys") == [])

    def _compare(
        self, where: str, what: str, expected: JsonValue | Nothing, seen: JsonValue | Nothing
    ) -> None:
        if not same_json(expected, seen):
            self._ledger.compare(CheckId.SANITISED_INPUT, f"{where}: {what}", expected, seen)


def _episode_input(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the episode's input in a call, wherever its hop has it."""
    data = at(call, "request", "input_data")
    return data if same_json(at(call, "hop"), 0) else at(data, "episode")


class RecordChecker:
    """Holds each record against the plan, the dataset and the adapters by construct.

    `repeated` are the episodes, by id, that must be called a second time; the installed runner
    plays interactive ones again, and a judge is asked again, of the record.
    """

    def __init__(
        self,
        installed: Installed,
        plan: CommittedPlan,
        ledger: Ledger,
        *,
        theatre_id: str,
        adapters: JsonValue | Nothing,
        draws: Drawn,
        repeated: frozenset[str],
        scorers: PinnedScorers | Cause,
        truth: GroundTruth,
    ) -> None:
        self._plan = plan
        self._calls = CallChecker(
            plan,
            theatre_id,
            draws,
            adapters,
            installed.registry,
            truth.answers,
        )
        self._draws = draws
        self._sanitising = SanitisingCheck(plan.sanitising, installed.sanitiser, ledger)
        self._repeated = repeated
        self._ledger = ledger
        self._scorers = scorers
        self._gold = truth.gold
        self._runner = installed.runners.get(plan.episode_runner)
        self._registry = installed.registry
        self._members = members_of(PlayedRecord if self._runner else EpisodeRecord)
        if not isinstance(scorers, Cause) and scorers.needs_judge:
            self._members |= {JUDGEMENTS, JUDGE_SEED}
        self._constructs = [hop.construct_id for hop in plan.hops]
        self.other_runner: Cause | None = None
        """Why the installed runner is not the one that episodes were played with."""

    def check(
        self, record: Recorded, episode: GroundTruthEpisode, where: str
    ) -> EpisodeAnswer | None:
        """Note to `invocations`, `version-pins` and `sanitised-input` what is wrong.

        Return the answer that counts, or None where the record has no readable one.
        """
        sent = self._sanitising.sent(record, episode, where)
        answer = self._answer(record, episode, sent)
        with self._ledger.noting(CheckId.INVOCATIONS, where=f"{where}: "):
            self._check_record(record, episode, sent)
            if answer is not None:
                self._check_judgements(record.document, episode, answer)
        self._check_versions(record, where)
        return answer

    @property
    def sanitiser(self) -> JsonValue | Nothing:
        """Return the sanitiser that the records name; see `SanitisingCheck.version`."""
        return self._sanitising.version

    def finish(self) -> None:
        """Complete what is checked record by record."""
        self._sanitising.finish()

    def _answer(
        self, record: Recorded, episode: GroundTruthEpisode, sent: SentInput
    ) -> EpisodeAnswer | None:
        status = record.status
        if not isinstance(status, str) or status not in STATUSES:
            return None
        if self._plan.repeats > 1:
            return self._repeats(record, episode, sent)
        if status != InvocationStatus.SUCCESS:
            return EpisodeAnswer(status=InvocationStatus(status), hops={}, sent=sent.value)
        constructs = self._constructs if self._runner is None else self._constructs[:1]
        if len(record.outputs) != len(constructs):
            return None
        return EpisodeAnswer(
            status=InvocationStatus.SUCCESS,
            hops=dict(zip(constructs, record.outputs, strict=True)),
            judgements=record.judgements(),
            sent=sent.value,
            judge_seed=self._judge_seed(record.document, episode),
        )

    def _judge_seed(
        self, document: JsonObject, episode: GroundTruthEpisode, repeat: int | None = None
    ) -> str:
        """Return what the coin draws for a judge; of a run without one nothing is drawn."""
        return self._draws.judge_seed(episode.episode_id, repeat) if JUDGE_SEED in document else ""

    def _repeats(
        self, record: Recorded, episode: GroundTruthEpisode, sent: SentInput
    ) -> EpisodeAnswer | None:
        """Return the answer with those of all repeats; None where one cannot be read."""
        constructs, repeats = self._constructs, []
        for repeat in range(self._plan.repeats):
            found = record.round(repeat)
            if found is None or (found[0] == "success" and len(found[1]) != len(constructs)):
                return None
            status, outputs = InvocationStatus(found[0]), found[1]
            succeeded = status is InvocationStatus.SUCCESS
            hops = dict(zip(constructs, outputs, strict=True)) if succeeded else {}
            repeats.append(
                EpisodeAnswer(
                    status=status,
                    hops=hops,
                    judgements=record.judgements(repeat),
                    judge_seed=self._judge_seed(record.document, episode, repeat),
                )
            )
        status = InvocationStatus(str(record.status))
        return EpisodeAnswer(status=status, hops={}, sent=sent.value, repeats=tuple(repeats))

    def _check_record(self, record: Recorded, episode: GroundTruthEpisode, sent: SentInput) -> None:
        document = record.document
        members = self._members
        if isinstance(self._scorers, Cause):  # what a judge was asked is not known
            members |= {JUDGEMENTS, JUDGE_SEED} & document.keys()
        require_members(document, members, "a record")
        require_same("seq", episode.seq, document["seq"])
        require_same("episode_id", episode.episode_id, document["episode_id"])
        if JUDGE_SEED in document:
            seed: JsonValue = self._judge_seed(document, episode)
            if self._plan.repeats > 1:
                seed = [
                    self._judge_seed(document, episode, one) for one in range(self._plan.repeats)
                ]
            require_same(JUDGE_SEED, seed, document[JUDGE_SEED])
        calls = document["calls"]
        if not isinstance(calls, list):
            raise DefectError("calls as an array", render(calls))
        if self._runner is not None:
            self._check_play(self._runner, document, calls, episode)
            return
        made, succeeded = self._check_round(calls, episode, sent, FIRST)
        for repeat in range(SECOND, self._plan.repeats):
            made += self._check_round(calls[made:], episode, sent, repeat)[0]
        if succeeded and episode.episode_id in self._repeated and self._plan.repeats == 1:
            made += self._check_round(calls[made:], episode, sent, SECOND)[0]
        # A call more is a second try that nothing counts.
        if len(calls) != made:
            raise DefectError(f"{made} calls, those of the committed rounds", str(len(calls)))

    def _check_judgements(
        self, document: JsonObject, episode: GroundTruthEpisode, answer: EpisodeAnswer
    ) -> None:
        """Ask again, of the record: exchanges must be those, and all, that each answer asks for."""
        scorers, gold = self._scorers, self._gold
        if isinstance(scorers, Cause) or isinstance(gold, Cause) or not scorers.needs_judge:
            return
        answers, recorded = answer.repeats or (answer,), document[JUDGEMENTS]
        by_answer = recorded if answer.repeats else [recorded]
        if not isinstance(by_answer, list) or len(by_answer) != len(answers):
            raise DefectError(f"judgements of {len(answers)} answers", render(recorded))
        held = scorers.expected(episode, gold.get(episode.episode_id))
        for one, of_answer in zip(answers, by_answer, strict=True):
            self._check_asked(scorers.judgements(episode, one, held), of_answer)

    @staticmethod
    def _check_asked(asked: Mapping[str, Judgement], recorded: JsonValue) -> None:
        if not isinstance(recorded, dict):
            raise DefectError("judgements as an object", render(recorded))
        require_members(recorded, frozenset(asked), "judgements")
        for criterion, judgement in asked.items():
            exchanges = recorded[criterion]
            if not isinstance(exchanges, list):
                raise DefectError(f"exchanges about {criterion} as an array", render(exchanges))
            objects = [exchange for exchange in exchanges if isinstance(exchange, dict)]
            if len(objects) != len(exchanges):
                raise DefectError(f"exchanges about {criterion} as objects", "others")
            try:
                replay_judgement(judgement, objects)
            except UnaskedError as error:
                raise DefectError(f"what is to be asked about {criterion}", str(error)) from error

    def _check_play(
        self,
        runner: EpisodeRunner,
        record: JsonObject,
        calls: Sequence[JsonValue],
        episode: GroundTruthEpisode,
    ) -> None:
        """Play the episode again with the recorded answers: same requests, same result."""
        if record["runner"] != runner.pin:
            named = f"{render(record['runner'])} is recorded and {runner.pin} installed"
            self.other_runner = Cause(f"runner {named}", unavailable=True)
            self._ledger.cannot(CheckId.INVOCATIONS, self.other_runner)
            return
        if faults := self._registry.validate_inline(runner.input_schema, episode.input_data):
            found = f"at {faults[0].pointer or '/'}: {faults[0].detail}"
            raise DefectError(f"input_data that {runner.pin} plays", found)
        play = runner.play(episode.input_data, self._draws.play_seed(episode.episode_id))
        made, result = 0, None
        try:
            turn = turn_of(next(play))
            while (output := self._check_turn(calls, episode, made, turn)) is not None:
                made += 1
                turn = turn_of(play.send(output))
            made += 1
        except StopIteration as ended:
            result = ended.value
        require_same(EPISODE_RESULT, result, record[EPISODE_RESULT])
        if len(calls) != made:
            raise DefectError(f"{made} calls, those that the runner asks for", str(len(calls)))

    def _check_turn(
        self, calls: Sequence[JsonValue], episode: GroundTruthEpisode, number: int, turn: Turn
    ) -> JsonObject | None:
        if number >= len(calls):
            raise DefectError(f"a call of turn {number}", "none")
        place = CallPlace(episode=episode, hop=turn.hop, repeat=FIRST, turn=number)
        try:
            return self._calls.check(calls[number], place, turn.input_data)
        except DefectError as defect:
            raise DefectError(f"turn {number}, with {defect.expected}", defect.actual) from defect

    def _check_round(
        self,
        calls: Sequence[JsonValue],
        episode: GroundTruthEpisode,
        sent: SentInput,
        repeat: int,
    ) -> tuple[int, bool]:
        """Check one round; return how many calls it took, and whether all of them succeeded.

        A hop that does not succeed is its last one.
        """
        outputs: dict[str, JsonObject] = {}
        for number, hop in enumerate(self._plan.hops):
            place = CallPlace(episode=episode, hop=number, repeat=repeat, sendable=sent.sendable)
            if number >= len(calls):
                raise DefectError(f"a call of hop {number}, repeat {repeat}", "none")
            data = sent.value
            if number:
                data = {"episode": sent.value, "upstream": {**outputs}}
            try:
                output = self._calls.check(calls[number], place, data)
            except DefectError as defect:
                named = f"hop {number}, repeat {repeat}, with {defect.expected}"
                raise DefectError(named, defect.actual) from defect
            if output is None:
                return number + 1, False
            outputs[hop.construct_id] = output
        return len(self._plan.hops), True

    def _check_versions(self, record: Recorded, where: str) -> None:
        """Let an accepted answer report the pin, and a mismatch report anything."""
        pinned = [one for calls in record.rounds for one in self._list_pinned(calls)]
        if not pinned or len(pinned) != len(record.calls):
            expected = f"{where}: calls of the chain with a version each"
            self._ledger.wrong(CheckId.VERSION_PINS, expected, render(at(record.document, "calls")))
        for call, hop in pinned:
            attempts = at(call, "attempts")
            if not isinstance(attempts, list) or not attempts:
                expected = f"{where}: attempts with a version each"
                self._ledger.wrong(CheckId.VERSION_PINS, expected, render(attempts))
                continue
            for attempt in attempts:
                self._check_version(attempt, hop.version, where)

    def _list_pinned(self, calls: Sequence[JsonValue]) -> Iterable[tuple[JsonValue, CommittedHop]]:
        """Return each call with the construct of its place; of a play, that which it names."""
        if self._runner is None:
            return zip(calls, self._plan.hops, strict=False)
        return (
            (call, hop)
            for call in calls
            for number, hop in enumerate(self._plan.hops)
            if same_json(at(call, "hop"), number)
        )

    def _check_version(self, attempt: JsonValue, pin: str, where: str) -> None:
        reason, reported = at(attempt, "reason"), at(attempt, "response", "construct_version")
        # Another version may answer better than the one that is certified.
        if reported != pin and reason in (None, OUTPUT_SPEC):
            expected = f"{where}: construct_version {pin} (pinned)"
            self._ledger.wrong(CheckId.VERSION_PINS, expected, render(reported))
        if reason == "version-mismatch" and not isinstance(reported, str):
            expected = f"{where}: construct_version as reported, as the reason says"
            self._ledger.wrong(CheckId.VERSION_PINS, expected, render(reported))
