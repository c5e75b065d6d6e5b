"""One call of one episode: the committed request, and attempts as often as committed.

Source: docs/contract/evidence.md §7; docs/constructs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from theatre.engine.bundle_check.arithmetic import DECLARED, is_of_type, is_recorded, is_usage
from theatre.engine.bundle_check.batches import STATUSES, is_mock
from theatre.engine.bundle_check.plan import CommittedHop, CommittedPlan
from theatre.engine.bundle_check.report import (
    DefectError,
    Nothing,
    at,
    render,
    require_members,
    require_same,
    require_time,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import (
    Attempt,
    GroundTruthEpisode,
    InvocationStatus,
    OracleInvocationResponse,
    RecordedCall,
    members_of,
)
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation

OUTPUT_SPEC = "output-spec"
"""The reason of an answer that was not accepted for its output alone."""

MAX_RAW_BYTES = 1024 * 1024
"""What an attempt keeps of an answer: at most so many bytes as JSON."""

_LONGEST_CHARACTER = 6
"""The bytes of one character as JSON, at most: it may be what no longer fitted."""

_OUTPUT_DATA = "output_data as an object on success, else or null"

_MAX_POINTER = 1000
MAX_ERROR_DETAIL = 2000

UNSENDABLE = "unsendable-input"
"""The reason of a call that was never made: no name in its input may change silently."""

_FINAL = frozenset({"version-mismatch", OUTPUT_SPEC, "answer-not-found"})
_FAILURES = (InvocationStatus.TIMEOUT, InvocationStatus.ERROR)
_CALL, _RESPONSE = members_of(RecordedCall), members_of(OracleInvocationResponse)
_WITH_USAGE = members_of(Attempt)
_ATTEMPT = _WITH_USAGE - {"usage"}


class CallPlace(NamedTuple):
    """Which call it is: `hop` and `turn` count from 0, `repeat` is 0 or 1; and may it be sent."""

    episode: GroundTruthEpisode
    hop: int
    repeat: int
    sendable: bool = True
    turn: int = 0


def sources_of(
    plan: CommittedPlan, hop: CommittedHop, adapter: JsonValue | Nothing
) -> tuple[str, ...]:
    """Return who may say which version answers through an adapter.

    Raises DefectError for one that was not committed, or reaches no real construct.
    """
    if plan.adapter_version is not None:
        require_same("the committed adapter_version", plan.adapter_version, adapter)
    if not isinstance(adapter, str) or is_mock(adapter):
        raise DefectError("an adapter that reaches a real construct", render(adapter))
    # What a template calls http is capped as http is: an import must not pass for it.
    if not is_of_type(adapter, hop.adapter_type):
        raise DefectError(
            f"an adapter of the committed adapter_type {hop.adapter_type}", render(adapter)
        )
    return ("declared",) if adapter.partition("@")[0] in DECLARED else ("computed", "claimed")


class Drawn(Protocol):
    """What a call has of the coin."""

    @property
    def run_nonce(self) -> bytes:
        """Return the nonce of the log; empty without one."""

    def alias(self, episode_id: str) -> str:
        """Return the id under which a construct is sent an episode."""

    def invocation_id(
        self, theatre_id: str, *, seq: int, hop: int = 0, repeat: int = 0, turn: int = 0
    ) -> str:
        """Return the id of a call."""

    def play_seed(self, episode_id: str) -> str:
        """Return the seed of an interactive episode."""

    def judge_seed(self, episode_id: str, repeat: int | None = None) -> str:
        """Return the seed of the order of what a judge is shown; `repeat` as in the record."""


class CallChecker:
    """Holds calls against the plan and the adapters that the trail names, by construct.

    `answers` are the lines of a finished log by episode, None where the construct was asked.
    """

    def __init__(
        self,
        plan: CommittedPlan,
        theatre_id: str,
        draws: Drawn,
        adapters: JsonValue | Nothing,
        registry: SchemaRegistry,
        answers: Mapping[str, JsonObject] | None = None,
    ) -> None:
        self._plan = plan
        self._answers = answers
        self._theatre_id = theatre_id
        self._draws = draws
        self._named = [at(adapters, hop.construct_id) for hop in plan.hops]
        self._shapes = [OutputShape(hop.output_spec, registry) for hop in plan.hops]
        self._metadata: JsonObject = {
            "deterministic": plan.deterministic_sample > 0,
            "retry_policy": plan.retry_policy,
            **({"run_nonce": draws.run_nonce.hex()} if draws.run_nonce else {}),
            "sanitised": plan.sanitising is not None,
        }
        self._sources: dict[int, tuple[str, ...]] = {}
        """Hop → who may say which version answered there, once its adapter was checked."""

    def check(self, call: JsonValue, place: CallPlace, sent: JsonValue) -> JsonObject | None:
        """Raise DefectError unless `call` is the committed one with the input `sent`.

        Return its output; None where it ended in anything but success.
        """
        require_members(call, _CALL, "a call")
        known = cast("JsonObject", call)
        hop = self._plan.hops[place.hop]
        adapter = known["adapter"]
        require_same("hop", place.hop, known["hop"])
        require_same("repeat", place.repeat, known["repeat"])
        require_same("construct_id", hop.construct_id, known["construct_id"])
        # One construct for the whole run: another adapter may lead to another program.
        require_same("the adapter that the trail names", self._named[place.hop], adapter)
        if place.hop not in self._sources:
            self._sources[place.hop] = sources_of(self._plan, hop, adapter)
        sources = self._sources[place.hop]
        if known["version_source"] not in sources:
            name = str(adapter).partition("@")[0]
            words = f"version_source {' or '.join(sources)} with {name}"
            raise DefectError(words, render(known["version_source"]))
        committed = CommittedCall(
            invocation_id=self._draws.invocation_id(
                self._theatre_id,
                seq=place.episode.seq,
                hop=place.hop,
                repeat=place.repeat,
                turn=place.turn,
            ),
            construct_id=hop.construct_id,
            version=hop.version,
            max_attempts=self._plan.max_attempts,
            shape=self._shapes[place.hop],
        )
        self._check_request(known["request"], committed, hop, place, sent)
        checked = check_attempts if place.sendable else check_unsent
        ended = checked(known["attempts"], committed)
        if self._answers is not None and place.sendable:
            self._check_recorded(known, self._answers.get(place.episode.episode_id))
        return ended.output if ended.status == InvocationStatus.SUCCESS else None

    def _check_recorded(self, call: JsonObject, line: JsonObject | None) -> None:
        """Raise DefectError for an answer that the committed log of another program has not."""
        request = cast("JsonObject", call["request"])
        for attempt in cast("list[JsonObject]", call["attempts"]):
            if not is_recorded(line, request, attempt, canonical_bytes):
                raise DefectError(
                    f"the answer that the committed log has, {render(line)}",
                    render(attempt["response"]),
                )

    def _check_request(
        self,
        request: JsonValue,
        call: CommittedCall,
        hop: CommittedHop,
        place: CallPlace,
        sent: JsonValue,
    ) -> None:
        committed: JsonObject = {
            "construct_id": hop.construct_id,
            "construct_version": hop.version,
            "episode_id": self._draws.alias(place.episode.episode_id),
            "input_data": sent,
            "invocation_id": call.invocation_id,
            "metadata": {
                **self._metadata,
                "invoked_at": require_time(at(request, "metadata", "invoked_at"), "invoked_at"),
                "timeout_seconds": hop.timeout_seconds,
            },
            "theatre_id": self._theatre_id,
        }
        # An easier question than the committed one has an easier answer.
        require_same("request", committed, request)


class OutputShape(NamedTuple):
    """One committed `output_spec`; an empty one lets any output pass."""

    spec: JsonObject
    registry: SchemaRegistry

    def require_fit(self, output: JsonObject) -> None:
        """Raise DefectError for the output of an accepted answer that does not fit."""
        for violation in self._violations(output):
            raise DefectError(
                "an output that fits the committed output_spec",
                f"{violation.pointer}: {violation.detail}",
            )

    def fits(self, output: JsonObject) -> bool:
        """Return whether an output would be accepted."""
        return not self._violations(output)

    def require_misfit(self, raw: str | None, detail: str | None) -> None:
        """Raise DefectError unless `raw` is a canonical output that does not fit.

        `detail` must name the place. Of an output that was cut at the limit nothing can be
        said.
        """
        if not self.spec:
            raise DefectError(f"no reason {OUTPUT_SPEC} without an output_spec", OUTPUT_SPEC)
        if raw is None:
            raise DefectError("raw with the output that did not fit", "null")
        encoded = raw.encode("utf-8")
        try:
            output = parse_object(encoded)
        except ParseError as error:
            if len(canonical_bytes(raw)) < MAX_RAW_BYTES - _LONGEST_CHARACTER:
                raise DefectError("raw with an output as canonical JSON", str(error)) from error
            return
        if canonical_bytes(output) != encoded:
            raise DefectError("raw with an output as canonical JSON", "another form")
        violations = self._violations(output)
        if not violations:
            raise DefectError("an output that does not fit, as its reason says", "one that does")
        pointer = violations[0].pointer
        if survives(pointer) and not (detail is not None and pointer in detail):
            raise DefectError(f"error_detail with the pointer {pointer}", render(detail))

    def _violations(self, output: JsonObject) -> list[SchemaViolation]:
        return self.registry.validate_inline(self.spec, output) if self.spec else []


def survives(pointer: str) -> bool:
    """Return whether a message shows a pointer unchanged: it is short, and nothing is hidden."""
    return len(pointer) <= _MAX_POINTER and pointer.isascii() and pointer.isprintable()


class CommittedCall(NamedTuple):
    """What the attempts of one call are checked against."""

    invocation_id: str
    construct_id: str
    version: str
    max_attempts: int
    shape: OutputShape


class Tried(NamedTuple):
    """An attempt whose every member has the form that is specified for it."""

    status: str
    construct_id: str | None
    construct_version: str | None
    output: JsonObject | None
    error_detail: str | None
    reason: str | None
    raw: str | None
    stderr: str | None


def check_attempts(attempts: JsonValue | Nothing, call: CommittedCall) -> Tried:
    """Return the attempt that the call ended with.

    Raises DefectError unless all are what the retry policy and the protocol allow: a failure is
    tried again until `max_attempts`; a success, a refusal and a version mismatch end the call.
    """
    known = []
    for number, document in enumerate(_require_list(attempts), start=1):
        try:
            attempt = _read(document, call.invocation_id)
            _check_attempt(attempt, call)
        except DefectError as defect:
            raise DefectError(f"attempt {number} with {defect.expected}", defect.actual) from defect
        known.append(attempt)
    # Who may try again after an answer keeps the best of several.
    if len(known) > call.max_attempts:
        raise DefectError(f"at most {call.max_attempts} attempts", str(len(known)))
    if not all(_is_retried(attempt) for attempt in known[:-1]):
        raise DefectError("no attempt behind one that ended the call", "another one")
    if _is_retried(known[-1]) and len(known) < call.max_attempts:
        raise DefectError(f"{call.max_attempts} attempts at a failing call", str(len(known)))
    return known[-1]


def check_unsent(attempts: JsonValue | Nothing, call: CommittedCall) -> Tried:
    """Return the one attempt that says that nothing was sent, and nothing came back.

    Raises DefectError where the attempts say anything else.
    """
    listed = _require_list(attempts)
    if len(listed) != 1:
        raise DefectError("one attempt where nothing may be sent", render(len(listed)))
    attempt = _read(listed[0], call.invocation_id)
    _check_status(attempt, accepted=False)
    for name, expected, seen in (
        ("reason", UNSENDABLE, attempt.reason),
        ("raw", None, attempt.raw),
        ("stderr", None, attempt.stderr),
        ("construct_id", None, attempt.construct_id),
        ("construct_version", None, attempt.construct_version),
        ("status", InvocationStatus.ERROR.value, attempt.status),
    ):
        require_same(f"{name} where nothing may be sent", expected, seen)
    return attempt


def _require_list(attempts: JsonValue | Nothing) -> Sequence[JsonValue]:
    if not isinstance(attempts, list) or not attempts:
        raise DefectError("attempts as an array of one or more", render(attempts))
    return attempts


def _is_retried(attempt: Tried) -> bool:
    return attempt.status in _FAILURES and attempt.reason not in _FINAL


def _read(document: JsonValue, invocation_id: str) -> Tried:
    """Return an attempt, every member of the form that is specified for it."""
    counted = isinstance(document, dict) and "usage" in document
    require_members(document, _WITH_USAGE if counted else _ATTEMPT, "an attempt")
    attempt = cast("JsonObject", document)
    if counted and not is_usage(attempt["usage"]):
        raise DefectError("usage with the tokens of input and output", render(attempt["usage"]))
    require_members(attempt["response"], _RESPONSE, "a response")
    response = cast("JsonObject", attempt["response"])
    if response["invocation_id"] != invocation_id:
        raise DefectError(f"invocation_id {invocation_id}", render(response["invocation_id"]))
    latency, status, output = response["latency_ms"], response["status"], response["output_data"]
    if not isinstance(latency, int) or isinstance(latency, bool) or latency < 0:
        raise DefectError("latency_ms as an integer from 0", render(latency))
    if not isinstance(status, str) or status not in STATUSES:
        raise DefectError(f"status as one of {', '.join(InvocationStatus)}", render(status))
    if not isinstance(output, dict | None):
        raise DefectError(_OUTPUT_DATA, render(output))
    require_time(response["responded_at"], "responded_at")
    return Tried(
        status=status,
        construct_id=_text_or_null(response, "construct_id"),
        construct_version=_text_or_null(response, "construct_version"),
        output=output,
        error_detail=_text_or_null(response, "error_detail"),
        reason=_text_or_null(attempt, "reason"),
        raw=_text_or_null(attempt, "raw"),
        stderr=_text_or_null(attempt, "stderr"),
    )


def _text_or_null(document: JsonObject, name: str) -> str | None:
    value = document[name]
    if value is not None and not isinstance(value, str):
        raise DefectError(f"{name} as text or null", render(value))
    return value


def _check_attempt(attempt: Tried, call: CommittedCall) -> None:
    reason = attempt.reason
    _check_status(attempt, accepted=reason is None)
    if reason in ("", UNSENDABLE):
        expected = "reason as a code or null" if reason == "" else f"no reason {UNSENDABLE}"
        raise DefectError(expected, render(reason))
    if reason == "timeout" and attempt.status != InvocationStatus.TIMEOUT:
        raise DefectError("the status timeout for that reason", render(attempt.status))
    if reason == OUTPUT_SPEC:
        _check_misfit(attempt, call)
    if reason is not None:
        return
    if attempt.construct_id != call.construct_id:
        raise DefectError(f"construct_id {render(call.construct_id)}", render(attempt.construct_id))
    if attempt.raw is not None:
        raise DefectError("raw null where the answer was accepted", render(attempt.raw))
    if attempt.status == InvocationStatus.SUCCESS and attempt.output is not None:
        call.shape.require_fit(attempt.output)


def _check_misfit(attempt: Tried, call: CommittedCall) -> None:
    """Require an answer that would have been accepted but for its output."""
    for name, expected, seen in (
        ("construct_id", call.construct_id, attempt.construct_id),
        ("construct_version", call.version, attempt.construct_version),
        ("status", InvocationStatus.ERROR.value, attempt.status),
    ):
        require_same(f"{name} where the reason is {OUTPUT_SPEC}", expected, seen)
    call.shape.require_misfit(attempt.raw, attempt.error_detail)


def _check_status(attempt: Tried, *, accepted: bool) -> None:
    """Let only a success count as an answer, with an object; a rejected one holds nothing."""
    output, detail = attempt.output, attempt.error_detail
    succeeded = attempt.status == InvocationStatus.SUCCESS
    if not accepted and attempt.status not in _FAILURES:
        expected = "status timeout or error where a reason stands"
        raise DefectError(expected, render(attempt.status))
    if succeeded and output is None:
        raise DefectError(_OUTPUT_DATA, "null")
    # An answer that was refused must not be scored.
    if not accepted and output is not None:
        raise DefectError("output_data null where a reason stands", render(output))
    if detail is None and not succeeded:
        raise DefectError("error_detail where the call did not succeed", "null")
    if detail is not None and len(detail) > MAX_ERROR_DETAIL:
        expected = f"error_detail of at most {MAX_ERROR_DETAIL} characters"
        raise DefectError(expected, f"{len(detail)} characters")
