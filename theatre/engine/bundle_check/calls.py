"""One call of one episode: the committed request, and attempts as often as committed.

Source: docs/evidence.md, "An invocation record" and "Hops"; docs/constructs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    at,
    is_whole,
    require_members,
    require_same,
    require_time,
    same_json,
    shown,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.recorded import STATUSES, Recorded, last_attempt
from theatre.engine.bundle_check.steps import CommittedHop
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import GroundTruthEpisode, InvocationStatus
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation

MOCK = "mock"
SOURCES = ("computed", "claimed")

_CALL = frozenset(
    {
        "hop",
        "repeat",
        "construct_id",
        "adapter",
        "version_source",
        "request",
        "attempts",
    }
)

OUTPUT_SPEC = "output-spec"
"""The reason of an answer that was not accepted for its output alone."""

MAX_RAW_BYTES = 1024 * 1024
"""What an attempt keeps of an answer: at most so many bytes as JSON."""

_LONGEST_CHARACTER = 6
"""The bytes of one character as JSON, at most: it may be what no longer fitted."""

_MAX_POINTER = 1000
MAX_ERROR_DETAIL = 2000

UNSENDABLE = "unsendable-input"
"""The reason of a call that was never made: no name in its input may change silently."""

_ATTEMPT = frozenset({"response", "reason", "raw", "stderr"})
_RESPONSE = frozenset(
    {
        "invocation_id",
        "construct_id",
        "construct_version",
        "output_data",
        "latency_ms",
        "status",
        "error_detail",
        "responded_at",
    }
)
_FAILURES = (InvocationStatus.TIMEOUT.value, InvocationStatus.ERROR.value)


def is_mock(adapter: JsonValue) -> bool:
    """Tell whether an adapter's pin is no text, or that of canned answers."""
    return not isinstance(adapter, str) or adapter.partition("@")[0] == MOCK


@dataclass(slots=True)
class CallFacts:
    """Facts of the episodes that were run; what was discarded counts in nothing else.

    `adapters` maps each construct that was called to its adapter in the newest record,
    `version_mismatches` counts calls, `determinism_differences` episodes.
    """

    recorded: int = 0
    discarded: int = 0
    version_mismatches: int = 0
    determinism_differences: int = 0
    adapters: dict[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    claimed: bool = False

    @property
    def version_source(self) -> str:
        """Return what the certificate must say: one claimed version makes all of them claimed."""
        return SOURCES[self.claimed]

    def note(self, record: Recorded) -> None:
        """Take the facts of one record, as far as it has them."""
        self.recorded += 1
        self.determinism_differences += record.differs
        for call in record.calls:
            self._note_call(call)

    def _note_call(self, call: JsonValue) -> None:
        attempts, construct = at(call, "attempts"), at(call, "construct_id")
        self.version_mismatches += isinstance(attempts, list) and any(
            at(attempt, "reason") == "version-mismatch" for attempt in attempts
        )
        adapter = at(call, "adapter")
        if isinstance(adapter, str):
            self.rehearsal |= is_mock(adapter)
            if isinstance(construct, str):
                self.adapters[construct] = adapter
        self.claimed |= at(call, "version_source") == "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Which call it is: `hop` and `turn` count from 0, `repeat` is 0 or 1; and may it be sent."""

    episode: GroundTruthEpisode
    hop: int
    repeat: int
    sendable: bool = True
    turn: int = 0

    @property
    def name(self) -> str:
        """Return what the call's id is the UUID of; only interactive episodes name turns."""
        name = f"{self.episode.seq}:{self.hop}:{self.repeat}"
        return f"{name}:{self.turn}" if self.turn else name


def require_adapter(plan: CommittedPlan, adapter: JsonValue | Nothing) -> None:
    """Raise DefectError for an adapter that was not committed, or reaches no real construct."""
    if plan.adapter_version is not None:
        require_same("the committed adapter_version", plan.adapter_version, adapter)
    if isinstance(adapter, Nothing) or is_mock(adapter):
        raise DefectError("an adapter that reaches a real construct", shown(adapter))


class CallChecker:
    """Holds calls against the plan and the adapters that the trail names, by construct."""

    def __init__(
        self,
        plan: CommittedPlan,
        theatre_id: str,
        adapters: JsonValue | Nothing,
        registry: SchemaRegistry,
    ) -> None:
        self._plan = plan
        self._theatre = UUID(theatre_id)
        self._adapters = adapters
        self._shapes = [OutputShape(hop.output_spec, registry) for hop in plan.hops]

    def check(self, call: JsonValue, place: CallPlace, sent: JsonValue) -> JsonObject | None:
        """Raise DefectError unless `call` is the committed one with the input `sent`.

        Return its output; None where it ended in anything but success.
        """
        require_members(call, _CALL, "a call")
        known = cast("JsonObject", call)
        hop = self._plan.hops[place.hop]
        self._check_frame(known, hop, place)
        committed = CommittedCall(
            invocation_id=str(uuid5(self._theatre, place.name)),
            construct_id=hop.construct_id,
            version=hop.version,
            max_attempts=self._plan.max_attempts,
            shape=self._shapes[place.hop],
        )
        self._check_request(known["request"], committed, hop, place, sent)
        (check_attempts if place.sendable else check_unsent)(known["attempts"], committed)
        response = at(last_attempt(call), "response")
        succeeded = at(response, "status") == InvocationStatus.SUCCESS.value
        return cast("JsonObject", at(response, "output_data")) if succeeded else None

    def _check_frame(self, call: JsonObject, hop: CommittedHop, place: CallPlace) -> None:
        adapter = call["adapter"]
        require_same("hop", place.hop, call["hop"])
        require_same("repeat", place.repeat, call["repeat"])
        require_same("construct_id", hop.construct_id, call["construct_id"])
        named = at(self._adapters, hop.construct_id)
        require_same("the adapter that the trail names", named, adapter)
        require_adapter(self._plan, adapter)
        if call["version_source"] not in SOURCES:
            raise DefectError("version_source computed or claimed", shown(call["version_source"]))

    def _check_request(
        self,
        request: JsonValue,
        call: CommittedCall,
        hop: CommittedHop,
        place: CallPlace,
        sent: JsonValue,
    ) -> None:
        plan, invoked_at = self._plan, at(request, "metadata", "invoked_at")
        require_time(invoked_at, "invoked_at")
        # In the order of canonical JSON, so that equal texts show that they are equal.
        committed: JsonObject = {
            "construct_id": hop.construct_id,
            "construct_version": hop.version,
            "episode_id": place.episode.episode_id,
            "input_data": sent,
            "invocation_id": call.invocation_id,
            "metadata": {
                "deterministic": plan.deterministic_sample > 0,
                "invoked_at": None if isinstance(invoked_at, Nothing) else invoked_at,
                "retry_policy": plan.retry_policy,
                "sanitised": plan.sanitising is not None,
                "timeout_seconds": hop.timeout_seconds,
            },
            "theatre_id": str(self._theatre),
        }
        require_same("request", committed, request)


def upstream_input(episode_input: JsonValue, outputs: Mapping[str, JsonObject]) -> JsonObject:
    """Return what a later hop is sent: the episode's input, and every output before it."""
    return {"episode": episode_input, "upstream": dict(outputs)}


@dataclass(frozen=True, slots=True)
class OutputShape:
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

    def require_misfit(self, raw: JsonValue, detail: JsonValue) -> None:
        """Raise DefectError unless `raw` is a canonical output that does not fit.

        `detail` has to name the place. Of an output that was cut at the limit nothing can be
        said.
        """
        if not self.spec:
            raise DefectError(f"no reason {OUTPUT_SPEC} without an output_spec", OUTPUT_SPEC)
        if not isinstance(raw, str):
            raise DefectError("raw with the output that did not fit", shown(raw))
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
        if survives(pointer) and not (isinstance(detail, str) and pointer in detail):
            raise DefectError(f"error_detail with the pointer {pointer}", shown(detail))

    def _violations(self, output: JsonObject) -> list[SchemaViolation]:
        return self.registry.validate_inline(self.spec, output) if self.spec else []


def survives(pointer: str) -> bool:
    """Tell whether a message shows a pointer as it is: it is short, and nothing in it is hidden."""
    return len(pointer) <= _MAX_POINTER and pointer.isascii() and pointer.isprintable()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCall:
    """What the attempts of one call are held against."""

    invocation_id: str
    construct_id: str
    version: str
    max_attempts: int
    shape: OutputShape


def check_attempts(attempts: JsonValue | Nothing, call: CommittedCall) -> None:
    """Raise DefectError unless `attempts` are what the retry policy and the protocol allow.

    A failure is tried again until `max_attempts`; a success, a refusal and a version mismatch
    end the call at once.
    """
    for number, attempt in enumerate(_listed(attempts), start=1):
        try:
            _check_attempt(attempt, call)
        except DefectError as defect:
            raise DefectError(f"attempt {number} with {defect.expected}", defect.actual) from defect
    _check_retries(cast("Sequence[JsonObject]", attempts), call.max_attempts)


def check_unsent(attempts: JsonValue | Nothing, call: CommittedCall) -> None:
    """Raise DefectError unless `attempts` say that nothing was sent: one, and nothing came back."""
    if len(_listed(attempts)) != 1:
        raise DefectError("one attempt where nothing may be sent", shown(len(_listed(attempts))))
    attempt = at(attempts, 0)
    known = _response_of(attempt, call.invocation_id)
    _check_status(known, accepted=False)
    expected: JsonObject = {"reason": UNSENDABLE, "raw": None, "stderr": None}
    reported: JsonObject = {"construct_id": None, "construct_version": None, "status": "error"}
    for name, value in expected.items():
        require_same(f"{name} where nothing may be sent", value, at(attempt, name))
    for name, value in reported.items():
        require_same(f"{name} where nothing may be sent", value, known[name])


def _listed(attempts: JsonValue | Nothing) -> Sequence[JsonValue]:
    if not isinstance(attempts, list) or not attempts:
        raise DefectError("attempts as an array of one or more", shown(attempts))
    return attempts


def _check_retries(attempts: Sequence[JsonObject], max_attempts: int) -> None:
    *earlier, last = attempts
    if len(attempts) > max_attempts:
        raise DefectError(f"at most {max_attempts} attempts", str(len(attempts)))
    if not all(_is_retried(attempt) for attempt in earlier):
        raise DefectError("no attempt behind one that ended the call", "another one")
    if _is_retried(last) and len(attempts) < max_attempts:
        raise DefectError(f"{max_attempts} attempts at a failing call", str(len(attempts)))


def _is_retried(attempt: JsonObject) -> bool:
    failed = at(attempt, "response", "status") in _FAILURES
    return failed and attempt["reason"] != "version-mismatch"


def _check_attempt(attempt: JsonValue, call: CommittedCall) -> None:
    known = _response_of(attempt, call.invocation_id)
    reason, raw = at(attempt, "reason"), at(attempt, "raw")
    _check_status(known, accepted=reason is None)
    _check_reason(known, reason, raw, call.construct_id)
    if reason == OUTPUT_SPEC:
        _check_misfit(known, raw, call)
    elif reason is None and known["status"] == InvocationStatus.SUCCESS.value:
        call.shape.require_fit(cast("JsonObject", known["output_data"]))


def _response_of(attempt: JsonValue | Nothing, invocation_id: str) -> JsonObject:
    """Return the response of an attempt, every member of the form that is specified for it."""
    require_members(attempt, _ATTEMPT, "an attempt")
    response = at(attempt, "response")
    require_members(response, _RESPONSE, "a response")
    known = cast("JsonObject", response)
    if not same_json(invocation_id, known["invocation_id"]):
        raise DefectError(f"invocation_id {invocation_id}", shown(known["invocation_id"]))
    for name in ("reason", "raw", "stderr"):
        _require_text_or_null(name, at(attempt, name))
    for name in ("construct_id", "construct_version", "error_detail"):
        _require_text_or_null(name, known[name])
    latency = known["latency_ms"]
    if not is_whole(latency) or cast("int", latency) < 0:
        raise DefectError("latency_ms as an integer from 0", shown(latency))
    require_time(known["responded_at"], "responded_at")
    return known


def _check_misfit(response: JsonObject, raw: JsonValue | Nothing, call: CommittedCall) -> None:
    """Require an answer that would have been accepted but for its output."""
    reported = {"construct_id": call.construct_id, "construct_version": call.version}
    for name, pinned in reported.items():
        require_same(f"{name} where the reason is {OUTPUT_SPEC}", pinned, response[name])
    require_same(f"status where the reason is {OUTPUT_SPEC}", "error", response["status"])
    call.shape.require_misfit(None if isinstance(raw, Nothing) else raw, response["error_detail"])


def _check_status(response: JsonObject, *, accepted: bool) -> None:
    """Let only a success count as an answer, with an object; a rejected one holds nothing."""
    status, output, detail = (response[name] for name in ("status", "output_data", "error_detail"))
    if not isinstance(status, str) or status not in STATUSES:
        raise DefectError(f"status as one of {', '.join(InvocationStatus)}", shown(status))
    if not accepted and status not in _FAILURES:
        raise DefectError("status timeout or error where a reason stands", shown(status))
    succeeded = status == InvocationStatus.SUCCESS.value
    if not isinstance(output, dict) and (succeeded or output is not None):
        raise DefectError("output_data as an object on success, else or null", shown(output))
    if not accepted and output is not None:
        raise DefectError("output_data null where a reason stands", shown(output))
    if detail is None and not succeeded:
        raise DefectError("error_detail where the call did not succeed", "null")
    if isinstance(detail, str) and len(detail) > MAX_ERROR_DETAIL:
        expected = f"error_detail of at most {MAX_ERROR_DETAIL} characters"
        raise DefectError(expected, f"{len(detail)} characters")


def _check_reason(
    response: JsonObject,
    reason: JsonValue | Nothing,
    raw: JsonValue | Nothing,
    construct_id: str,
) -> None:
    if reason in ("", UNSENDABLE):
        expected = "reason as a code or null" if reason == "" else f"no reason {UNSENDABLE}"
        raise DefectError(expected, shown(reason))
    if reason is None and response["construct_id"] != construct_id:
        raise DefectError(f"construct_id {shown(construct_id)}", shown(response["construct_id"]))
    if reason is None and raw is not None:
        raise DefectError("raw null where the answer was accepted", shown(raw))
    if reason == "timeout" and response["status"] != InvocationStatus.TIMEOUT.value:
        raise DefectError("the status timeout for that reason", shown(response["status"]))


def _require_text_or_null(name: str, value: JsonValue | Nothing) -> None:
    if value is not None and not isinstance(value, str):
        raise DefectError(f"{name} as text or null", shown(value))
