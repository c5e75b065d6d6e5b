"""What a construct sends back is read once, strictly, and never crashes the reader."""

import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.canonical_json.writing import fast_canonical_bytes
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    Attempt,
    InvocationMetadata,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
    clean_detail,
    cut_raw,
    failed_attempt,
    read_answer,
)

THEATRE = "0b0e8a52-8d0c-5a53-9f3e-6b1f3d0a1c55"
AT = datetime(2026, 11, 21, 2, 7, 0, 250_000, tzinfo=UTC)
AT_TEXT = "2026-11-21T02:07:00.250000Z"
REQUEST = OracleInvocationRequest(
    invocation_id="8d8ac610-566d-8ef0-9c22-186b2a5ed793",
    theatre_id=THEATRE,
    episode_id="e3",
    construct_id="cartograph",
    construct_version="abc1234",
    input_data={"q": 1},
    metadata=InvocationMetadata(invoked_at=AT_TEXT),
)
ECHO: JsonObject = {
    "invocation_id": REQUEST.invocation_id,
    "construct_id": "cartograph",
    "construct_version": "abc1234",
}
SUCCESS: JsonObject = ECHO | {"status": "success", "output_data": {"result": 1}}


def read(raw: bytes) -> Attempt:
    return read_answer(raw, REQUEST, latency_ms=12, responded_at=AT)


def read_document(answer: JsonValue) -> Attempt:
    return read(json.dumps(answer).encode())


def accepted(
    status: str, output_data: JsonObject | None = None, error_detail: str | None = None
) -> Attempt:
    return Attempt(
        response=OracleInvocationResponse(
            invocation_id=REQUEST.invocation_id,
            construct_id="cartograph",
            construct_version="abc1234",
            output_data=output_data,
            latency_ms=12,
            status=InvocationStatus(status),
            error_detail=error_detail,
            responded_at=AT_TEXT,
        )
    )


@pytest.mark.parametrize(
    ("members", "attempt"),
    [
        ({"status": "success", "output_data": {}}, accepted("success", {})),
        ({"status": "SUCCESS", "output_data": {"a": [1.0, None]}},
         accepted("success", {"a": [1.0, None]})),
        ({"status": "success", "output_data": {}, "error_detail": "odd"},
         accepted("success", {}, "odd")),
        ({"status": "error", "error_detail": "not implemented"},
         accepted("error", None, "not implemented")),
        ({"status": "ERROR"}, accepted("error", None, "no reason given")),
        ({"status": "error", "error_detail": 7}, accepted("error", None, "no reason given")),
        ({"status": "error", "output_data": {"half": 1}, "error_detail": "x\x07y"},
         accepted("error", {"half": 1}, "xy")),
        ({"status": "error", "output_data": [1], "error_detail": "x"},
         accepted("error", None, "x")),
        ({"status": "refused", "error_detail": "unsafe"}, accepted("refused", None, "unsafe")),
        ({"status": "REFUSED"}, accepted("refused", None, "no reason given")),
        ({"status": "timeout"}, accepted("timeout", None, "no reason given")),
        ({"status": "TIMEOUT", "error_detail": ""}, accepted("timeout", None, "")),
        ({"status": "success", "output_data": {}, "latency_ms": 0, "extra": True},
         accepted("success", {})),
    ],
)  # fmt: skip
def test_an_envelope_that_echoes_the_request_is_accepted(
    members: JsonObject, attempt: Attempt
) -> None:
    assert read_document(ECHO | members) == attempt


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        (None, "not-envelope", "expected an envelope object, got null"),
        ([SUCCESS], "not-envelope", "expected an envelope object, got array"),
        ("success", "not-envelope", "expected an envelope object, got string"),
        ({}, "not-envelope", "expected invocation_id as a string, got null"),
        (SUCCESS | {"invocation_id": 7}, "not-envelope", "expected invocation_id as a string, got"),
        (SUCCESS | {"construct_id": None}, "not-envelope", "expected construct_id as a string, "),
        (SUCCESS | {"construct_version": 1}, "not-envelope", "expected construct_version as a "),
        (SUCCESS | {"status": "done"}, "not-envelope", "expected status to be one of success, "),
        (SUCCESS | {"status": None}, "not-envelope", "expected status to be one of success, "),
        (SUCCESS | {"status": ["success"]}, "not-envelope", "expected status to be one of "),
        (ECHO | {"status": "success"}, "not-envelope", "expected output_data as an object, got nu"),
        (SUCCESS | {"output_data": [1]}, "not-envelope", "expected output_data as an object, got "),
        (
            SUCCESS | {"invocation_id": THEATRE},
            "wrong-invocation-id",
            f"expected invocation_id {REQUEST.invocation_id} (pinned), got {THEATRE} (reported)",
        ),
        (
            SUCCESS | {"construct_id": "other"},
            "wrong-construct-id",
            "expected construct_id cartograph (pinned), got other (reported)",
        ),
        (
            SUCCESS | {"construct_version": "abc1235"},
            "version-mismatch",
            "expected construct_version abc1234 (pinned), got abc1235 (reported)",
        ),
        (
            ECHO | {"status": "error", "construct_version": "ABC1234"},
            "version-mismatch",
            "expected construct_version abc1234 (pinned), got ABC1234 (reported)",
        ),
    ],
)
def test_an_answer_that_is_not_the_envelope_is_an_error_with_its_reason(
    answer: JsonValue, reason: str, detail: str
) -> None:
    attempt = read_document(answer)
    assert (attempt.reason, attempt.response.status) == (reason, InvocationStatus.ERROR)
    assert attempt.response.error_detail is not None
    assert attempt.response.error_detail.startswith(detail)
    assert attempt.response.output_data is None
    assert attempt.response.invocation_id == REQUEST.invocation_id
    assert attempt.raw == json.dumps(answer)


def test_a_rejected_answer_keeps_what_the_construct_reported() -> None:
    reported = SUCCESS | {"construct_version": "v" * 300, "construct_id": "a\x00b"}
    response = read_document(reported).response
    assert (response.construct_id, response.construct_version) == ("ab", "v" * 200)
    response = read_document({"construct_id": 7}).response
    assert (response.construct_id, response.construct_version) == (None, None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not-json"),
        (b"Segmentation fault", "not-json"),
        (json.dumps(SUCCESS).encode() * 2, "not-json"),
        (b"\xff\xfe", "not-utf8"),
        (b"\xef\xbb\xbf" + json.dumps(SUCCESS).encode(), "byte-order-mark"),
        (b'{"status":"success","status":"success"}', "duplicate-key"),
        (b'{"output_data":{"a":NaN}}', "non-finite"),
        (b'{"output_data":{"a":1e999}}', "number-overflow"),
        (b'{"output_data":{"a":9007199254740993}}', "unsafe-integer"),
        (b'{"output_data":{"a":1e17}}', "unsafe-integer"),
        (b'{"output_data":{"a":"\\ud800"}}', "lone-surrogate"),
        (b'{"output_data":' + b"[" * 70 + b"]" * 70 + b"}", "too-deep"),
        (b" " * (MAX_ANSWER_BYTES + 1), "too-large"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:30]!r}",
)
def test_bytes_that_are_not_strict_json_are_an_error_with_the_parser_s_reason(
    raw: bytes, reason: str
) -> None:
    attempt = read(raw)
    assert (attempt.reason, attempt.response.status) == (reason, InvocationStatus.ERROR)
    assert attempt.response.error_detail
    assert attempt.raw == cut_raw(raw)


def test_an_answer_of_exactly_the_limit_is_still_read() -> None:
    document = json.dumps(SUCCESS).encode()
    padded = document + b" " * (MAX_ANSWER_BYTES - len(document))
    assert read(padded) == accepted("success", {"result": 1})


def test_raw_bytes_are_kept_readable_and_cut_at_the_limit() -> None:
    assert cut_raw(b"caf\xc3\xa9 \xff") == "café \\xff"
    assert cut_raw(b"a" * (MAX_ANSWER_BYTES + 5)) == "a" * MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m\r\n", "[31mred[0m\n"),
        ("a\x00b\x7fc\x9bd", "abcd"),
        ("a\u202eb\u200bc\ufeffd", "abcd"),
        ("half \ud800 pair", "half ? pair"),
        ("café 😀", "café 😀"),
        ("x" * (MAX_ERROR_DETAIL + 1), "x" * MAX_ERROR_DETAIL),
        ("\x00" * 5000 + "end", "end"),
    ],
    ids=range(9),
)
def test_a_detail_is_freed_of_control_characters_and_cut(text: str, cleaned: str) -> None:
    assert clean_detail(text) == cleaned


@given(st.text(st.characters(), max_size=50))
def test_cleaning_a_detail_twice_changes_nothing_more(text: str) -> None:
    cleaned = clean_detail(text)
    assert clean_detail(cleaned) == cleaned
    assert canonical_bytes(cleaned)


def test_a_call_without_an_answer_is_recorded_with_what_is_known() -> None:
    attempt = failed_attempt(
        REQUEST,
        InvocationStatus.TIMEOUT,
        reason="timeout",
        detail="no answer in 30 s\x07",
        latency_ms=30_000,
        responded_at=AT,
        raw=b"half an ans\xff",
        stderr="warning\x1b[0m",
    )
    assert attempt.as_document() == {
        "response": {
            "invocation_id": REQUEST.invocation_id,
            "construct_id": None,
            "construct_version": None,
            "output_data": None,
            "latency_ms": 30_000,
            "status": "timeout",
            "error_detail": "no answer in 30 s",
            "responded_at": AT_TEXT,
        },
        "reason": "timeout",
        "raw": "half an ans\\xff",
        "stderr": "warning[0m",
    }


def test_a_request_is_sent_as_its_envelope_with_the_documented_defaults() -> None:
    assert REQUEST.as_document() == {
        "invocation_id": REQUEST.invocation_id,
        "theatre_id": THEATRE,
        "episode_id": "e3",
        "construct_id": "cartograph",
        "construct_version": "abc1234",
        "input_data": {"q": 1},
        "metadata": {
            "timeout_seconds": 30,
            "retry_policy": {"max_retries": 2, "backoff_seconds": 5},
            "deterministic": False,
            "sanitised": False,
            "invoked_at": AT_TEXT,
        },
    }


def test_a_document_shares_nothing_that_a_scorer_could_change() -> None:
    request = replace(REQUEST, input_data={"deep": [{"q": 1}]})
    attempt = read_document(SUCCESS | {"output_data": {"deep": [{"a": 1}]}})
    sent, kept = canonical_bytes(request.as_document()), canonical_bytes(attempt.as_document())
    documents = request.as_document(), attempt.as_document()
    request.input_data["deep"][0]["q"] = 2
    request.input_data["more"] = True
    assert attempt.response.output_data is not None
    attempt.response.output_data["deep"][0]["a"] = 2
    attempt.response.output_data["deep"].append(None)
    assert tuple(map(canonical_bytes, documents)) == (sent, kept)


def test_the_documents_of_a_call_are_plain_json_with_a_quick_form() -> None:
    for document in (REQUEST.as_document(), accepted("success", {"p": 1.0}).as_document()):
        assert fast_canonical_bytes(document) == rfc8785.dumps(document)


def test_envelopes_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        REQUEST.invocation_id = "another"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        REQUEST.metadata.timeout_seconds = 1  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        accepted("success", {}).response.invocation_id = "another"  # type: ignore[misc]


@pytest.mark.parametrize(
    "policy", [{"max_retries": -1}, {"max_retries": 11}, {"backoff_seconds": -1}, {"jitter": 1}]
)
def test_a_retry_policy_has_bounds_and_no_further_members(policy: JsonObject) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(RetryPolicy).validate_python(policy)


def assert_well_formed(attempt: Attempt) -> None:
    assert (attempt.reason is None) is (attempt.raw is None)
    assert attempt.reason is None or attempt.response.status is InvocationStatus.ERROR
    assert attempt.response.invocation_id == REQUEST.invocation_id
    assert (attempt.response.latency_ms, attempt.response.responded_at) == (12, AT_TEXT)
    assert canonical_bytes(attempt.as_document())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(raw: bytes) -> None:
    assert_well_formed(read(raw))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=10,
)


@given(ANY_JSON)
def test_any_json_is_read_without_an_exception(answer: JsonValue) -> None:
    assert_well_formed(read_document(answer))


@given(
    st.dictionaries(
        st.sampled_from([*SUCCESS, "error_detail"]),
        ANY_JSON | st.sampled_from(["success", "ERROR", "Refused", "timeout"]),
    )
)
def test_an_envelope_with_any_members_is_read_without_an_exception(members: JsonObject) -> None:
    assert_well_formed(read_document(SUCCESS | members))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, None),
        ({"run_nonce": "ab" * 32}, None),
        ({"run_nonce": "cd" * 32}, "wrong-run-nonce"),
        ({"run_nonce": None}, "not-envelope"),
    ],
    ids=["silent", "echo", "another run's", "none"],
)
def test_an_answer_to_another_run_is_none_to_this(members: JsonObject, reason: str | None) -> None:
    asked = replace(REQUEST, metadata=replace(REQUEST.metadata, run_nonce="ab" * 32))
    raw = canonical_bytes(SUCCESS | members)
    assert read_answer(raw, asked, latency_ms=12, responded_at=AT).reason == reason
