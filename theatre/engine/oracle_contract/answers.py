"""Attempts: the one strict reader of answers, and what stands for an answer that never came."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import accumulate

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    json_type,
    parse_json,
)
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import ParseError
from theatre.engine.models import (
    Attempt,
    InvocationStatus,
    OracleInvocationRequest,
    OracleInvocationResponse,
)

# What a construct said, made fit for a record: cleaned, and cut to a bounded length.


MAX_ANSWER_BYTES = 1024 * 1024
MAX_ERROR_DETAIL = 2000
MAX_STDERR = 4000
_INVISIBLE = re.compile(
    # C0 and C1 but tab and line feed, zero-width, bidi and line separators, tags. A table of our
    # own: `str.isprintable` answers by the Unicode version of the interpreter.
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
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


_STATUSES = {status.value: status for status in InvocationStatus}


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
        return reader.reject(error.reason, str(error), raw)
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
            return self.reject(
                "not-envelope", f"expected an envelope object, got {json_type(answer)}", raw
            )
        problem = self._echo_problem(answer) or _body_problem(answer)
        if problem is not None:
            reason, detail = problem
            return self.reject(reason, detail, raw, answer)
        return self._accept(answer)

    def reject(
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

    def _accept(self, answer: JsonObject) -> Attempt:
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
    return _STATUSES.get(value.lower()) if isinstance(value, str) else None


def _detail(answer: JsonObject, status: InvocationStatus | None) -> str | None:
    detail = answer.get("error_detail")
    if isinstance(detail, str):
        return clean_detail(detail)
    return None if status is InvocationStatus.SUCCESS else "no reason given"


def _text_or_none(value: JsonValue) -> str | None:
    return clean_detail(value)[:200] if isinstance(value, str) else None
