"""Attempts: the one strict reader of answers, and what stands for an answer that never came."""

from __future__ import annotations

from datetime import datetime

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
from theatre.engine.oracle_contract.text import (
    MAX_ANSWER_BYTES,
    MAX_STDERR,
    clean_detail,
    cut_raw,
)

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
