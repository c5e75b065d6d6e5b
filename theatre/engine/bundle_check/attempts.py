"""The attempts of one call: tried as often as committed, and each response in order.

Source: docs/evidence.md, "An invocation record"; contract/construct.md, "Adapters".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    at,
    is_whole,
    require_members,
    require_time,
    same_json,
    shown,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import InvocationStatus

MAX_ERROR_DETAIL = 2000

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


def check_attempts(
    attempts: JsonValue | Nothing, *, invocation_id: str, construct_id: str, max_attempts: int
) -> None:
    """Raise DefectError unless `attempts` are what the retry policy and the protocol allow.

    A failure is tried again until `max_attempts`; a success, a refusal and a version mismatch
    end the call at once.
    """
    if not isinstance(attempts, list) or not attempts:
        raise DefectError("attempts as an array of one or more", shown(attempts))
    for number, attempt in enumerate(attempts, start=1):
        try:
            _check_attempt(attempt, invocation_id, construct_id)
        except DefectError as defect:
            raise DefectError(f"attempt {number} with {defect.expected}", defect.actual) from defect
    _check_retries(cast("Sequence[JsonObject]", attempts), max_attempts)


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


def _check_attempt(attempt: JsonValue, invocation_id: str, construct_id: str) -> None:
    require_members(attempt, _ATTEMPT, "an attempt")
    response = at(attempt, "response")
    require_members(response, _RESPONSE, "a response")
    known = cast("JsonObject", response)
    reason = at(attempt, "reason")
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
    _check_status(known, accepted=reason is None)
    _check_reason(known, reason, at(attempt, "raw"), construct_id)


def _check_status(response: JsonObject, *, accepted: bool) -> None:
    """Let only a success count as an answer, with an object; a rejected one holds nothing."""
    status, output, detail = (response[name] for name in ("status", "output_data", "error_detail"))
    if not isinstance(status, str) or status not in set(InvocationStatus):
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
    if reason == "":
        raise DefectError("reason as a code or null", '""')
    if reason is None and response["construct_id"] != construct_id:
        raise DefectError(f"construct_id {shown(construct_id)}", shown(response["construct_id"]))
    if reason is None and raw is not None:
        raise DefectError("raw null where the answer was accepted", shown(raw))
    if reason == "timeout" and response["status"] != InvocationStatus.TIMEOUT.value:
        raise DefectError("the status timeout for that reason", shown(response["status"]))


def _require_text_or_null(name: str, value: JsonValue | Nothing) -> None:
    if value is not None and not isinstance(value, str):
        raise DefectError(f"{name} as text or null", shown(value))
