"""How a construct is called and how its answer is read (contract/construct.md, "Envelope").

The same strict reader serves every adapter, so a construct cannot be judged differently
because of the wire it sits on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    json_type,
    parse_json,
)
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import ParseError
from theatre.engine.models import InvocationStatus

MAX_ANSWER_BYTES = 1024 * 1024
MAX_ERROR_DETAIL = 2000
MAX_STDERR = 4000
_INVISIBLE = re.compile(
    # C0 and C1 but tab and line feed, zero-width, bidi and line separators, tags. A table of our
    # own: `str.isprintable` answers by the Unicode version of the interpreter.
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)


class RetryPolicy(BaseModel):
    """How often a failed call is tried again, and the first wait in seconds (then doubling)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(default=2, ge=0, le=10)
    backoff_seconds: float = Field(default=5, ge=0, le=3600)


class OracleInvocationMetadata(BaseModel):
    """The engine's side of a call. `sanitised` is true only if the sanitiser really ran."""

    model_config = ConfigDict(frozen=True)

    timeout_seconds: float = 30
    retry_policy: RetryPolicy = RetryPolicy()
    deterministic: bool = False
    sanitised: bool = False
    invoked_at: str


class OracleInvocationRequest(BaseModel):
    """What a construct receives. It never holds an expectation, a label or a path."""

    model_config = ConfigDict(frozen=True)

    invocation_id: str
    theatre_id: str
    episode_id: str
    construct_id: str
    construct_version: str
    input_data: dict[str, Any]
    metadata: OracleInvocationMetadata

    def as_document(self) -> JsonObject:
        """Return the envelope as it is sent and kept."""
        return self.model_dump(mode="json")


class OracleInvocationResponse(BaseModel):
    """An answer as the engine recorded it; `latency_ms` and `responded_at` are measured here.

    `construct_id` and `construct_version` are what the construct reported, or null where it
    reported nothing readable.
    """

    model_config = ConfigDict(frozen=True)

    invocation_id: str
    construct_id: str | None
    construct_version: str | None
    output_data: dict[str, Any] | None = None
    latency_ms: int
    status: InvocationStatus
    error_detail: str | None = None
    responded_at: str

    def as_document(self) -> JsonObject:
        """Return the envelope as the evidence keeps it."""
        return self.model_dump(mode="json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one call.

    `reason` is a stable code where the engine, not the construct, decided the status (see
    `read_answer`; adapters add `timeout`, `crashed`, `unreachable`). `raw` holds the bytes of
    an answer that was not accepted, cut at the limit; `stderr` what the construct complained.
    """

    response: OracleInvocationResponse
    reason: str | None = None
    raw: str | None = None
    stderr: str | None = None

    def as_document(self) -> JsonObject:
        """Return the form that the evidence keeps."""
        return {
            "response": self.response.as_document(),
            "reason": self.reason,
            "raw": self.raw,
            "stderr": self.stderr,
        }


@runtime_checkable
class OracleAdapter(Protocol):
    """One transport to one construct. An adapter never raises for what a construct does."""

    @property
    def pin(self) -> str:
        """Return `name@version` of the adapter, as evidence and `adapter_version` spell it."""

    @property
    def computed_version(self) -> str | None:
        """Return the construct's version where the engine can compute it from its files.

        None for a remote construct: its version is what it reports (`claimed`).
        """

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try, bounded by `request.metadata.timeout_seconds`."""

    async def aclose(self) -> None:
        """Let go of everything; no process and no connection stays behind."""


class RehearsalAdapter:
    """Marks adapters whose answers are canned. No certificate ever rests on one (by type)."""


class Invoker(Protocol):
    """Makes one call with its committed retries and returns every attempt, in order."""

    async def __call__(
        self, adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        """Return at least one attempt; the last one's response is the answer."""


def invocation_id(theatre_id: str, *, seq: int, hop: int = 0, repeat: int = 0) -> str:
    """Return UUID5(theatre, "sequence:hop:repeat"): the same for every attempt of a call."""
    return str(uuid5(UUID(theatre_id), f"{seq}:{hop}:{repeat}"))


def read_answer(
    raw: bytes, request: OracleInvocationRequest, *, latency_ms: int, responded_at: datetime
) -> Attempt:
    """Read what a construct sent back for `request`; never raises.

    Reasons of an answer that is not accepted: `too-large`, the parser's own (`not-json`,
    `too-deep`, `non-finite`, `duplicate-key`, …), `not-envelope`, `wrong-invocation-id`,
    `wrong-construct-id`, `version-mismatch`.
    """
    reader = _AnswerReader(request, latency_ms, format_rfc3339(responded_at))
    try:
        answer = parse_json(raw, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_INPUT_DEPTH)
    except ParseError as error:
        return reader.rejected(error.reason, str(error), raw)
    return reader.read(answer, raw)


def failed_attempt(
    request: OracleInvocationRequest,
    status: InvocationStatus,
    *,
    reason: str,
    detail: str,
    latency_ms: int,
    responded_at: datetime,
    raw: bytes | None = None,
    stderr: str | None = None,
) -> Attempt:
    """Return the attempt for a call that brought no readable answer (timeout, crash, …)."""
    response = OracleInvocationResponse(
        invocation_id=request.invocation_id,
        construct_id=None,
        construct_version=None,
        latency_ms=latency_ms,
        status=status,
        error_detail=clean_detail(detail),
        responded_at=format_rfc3339(responded_at),
    )
    return Attempt(
        response=response,
        reason=reason,
        raw=None if raw is None else cut_raw(raw),
        stderr=None if stderr is None else clean_detail(stderr, limit=MAX_STDERR),
    )


def clean_detail(text: str, *, limit: int = MAX_ERROR_DETAIL) -> str:
    """Return `text` without invisible characters and lone surrogates, cut to `limit` characters."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub("", readable)[:limit]


def cut_raw(raw: bytes) -> str:
    """Return rejected bytes as text, cut so that it takes at most the answer limit as JSON.

    NUL bytes are six characters each in JSON: a cut by bytes would let a construct write
    records that are too large to be read back.
    """
    text = raw[:MAX_ANSWER_BYTES].decode("utf-8", "backslashreplace")
    lengths = accumulate(_escaped_length(character) for character in text)
    kept = sum(1 for length in lengths if length <= MAX_ANSWER_BYTES)
    return text[:kept]


def _escaped_length(character: str) -> int:
    """Return the most characters that JSON may write for this one."""
    if character < " ":
        return len("\\u0000")
    return 2 if character in '"\\' else 1


class _AnswerReader:
    """Checks one parsed answer member by member against the request it belongs to."""

    def __init__(
        self, request: OracleInvocationRequest, latency_ms: int, responded_at: str
    ) -> None:
        self._request = request
        self._latency_ms = latency_ms
        self._responded_at = responded_at

    def read(self, answer: JsonValue, raw: bytes) -> Attempt:
        if not isinstance(answer, dict):
            return self.rejected(
                "not-envelope", f"expected an envelope object, got {json_type(answer)}", raw
            )
        problem = self._echo_problem(answer) or _body_problem(answer)
        if problem is not None:
            reason, detail = problem
            return self.rejected(reason, detail, raw, answer)
        return self._accepted(answer)

    def rejected(
        self, reason: str, detail: str, raw: bytes, answer: JsonObject | None = None
    ) -> Attempt:
        reported = answer or {}
        response = OracleInvocationResponse(
            invocation_id=self._request.invocation_id,
            construct_id=_text_or_none(reported.get("construct_id")),
            construct_version=_text_or_none(reported.get("construct_version")),
            latency_ms=self._latency_ms,
            status=InvocationStatus.ERROR,
            error_detail=clean_detail(detail),
            responded_at=self._responded_at,
        )
        return Attempt(response=response, reason=reason, raw=cut_raw(raw))

    def _echo_problem(self, answer: JsonObject) -> tuple[str, str] | None:
        request = self._request
        echoes = [
            ("wrong-invocation-id", "invocation_id", request.invocation_id),
            ("wrong-construct-id", "construct_id", request.construct_id),
            ("version-mismatch", "construct_version", request.construct_version),
        ]
        for reason, member, expected in echoes:
            seen = answer.get(member)
            if not isinstance(seen, str):
                return "not-envelope", f"expected {member} as a string, got {json_type(seen)}"
            if seen != expected:
                return reason, f"expected {member} {expected} (pinned), got {seen[:100]} (reported)"
        return None

    def _accepted(self, answer: JsonObject) -> Attempt:
        status = _status(answer)
        output = answer.get("output_data")
        response = OracleInvocationResponse(
            invocation_id=self._request.invocation_id,
            construct_id=self._request.construct_id,
            construct_version=self._request.construct_version,
            output_data=output if isinstance(output, dict) else None,
            latency_ms=self._latency_ms,
            status=status or InvocationStatus.ERROR,
            error_detail=_detail(answer, status),
            responded_at=self._responded_at,
        )
        return Attempt(response=response)


def _body_problem(answer: JsonObject) -> tuple[str, str] | None:
    status = _status(answer)
    if status is None:
        names = ", ".join(InvocationStatus)
        return "not-envelope", f"expected status to be one of {names}"
    output = answer.get("output_data")
    if status is InvocationStatus.SUCCESS and not isinstance(output, dict):
        return "not-envelope", f"expected output_data as an object, got {json_type(output)}"
    return None


def _status(answer: JsonObject) -> InvocationStatus | None:
    value = answer.get("status")
    if isinstance(value, str) and value.lower() in set(InvocationStatus):
        return InvocationStatus(value.lower())
    return None


def _detail(answer: JsonObject, status: InvocationStatus | None) -> str | None:
    detail = answer.get("error_detail")
    if isinstance(detail, str):
        return clean_detail(detail)
    return None if status is InvocationStatus.SUCCESS else "no reason given"


def _text_or_none(value: JsonValue) -> str | None:
    return clean_detail(value)[:200] if isinstance(value, str) else None
