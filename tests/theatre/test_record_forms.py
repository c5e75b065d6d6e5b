"""The forms that the engine fills in and the check reads: every member, spelt out."""

from dataclasses import replace
from typing import Protocol

import pytest

from tests.theatre.conftest import SmallRun
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import (
    Attempt,
    EpisodeRecord,
    EpisodeTrouble,
    InvocationMetadata,
    InvocationStatus,
    OracleInvocationRequest,
    OracleInvocationResponse,
    PlayedRecord,
    RecordedBatch,
    RecordedCall,
    RetryPolicy,
    members_of,
)

AT = "2026-11-21T02:07:00.000000Z"
CALL_ID = "00000000-0000-5000-8000-000000000000"


class Form(Protocol):
    def as_document(self) -> JsonObject: ...


METADATA = InvocationMetadata(
    timeout_seconds=3,
    retry_policy=RetryPolicy(max_retries=1, backoff_seconds=2),
    deterministic=True,
    sanitised=True,
    invoked_at=AT,
    run_nonce="ab" * 32,
)
METADATA_DOCUMENT: JsonObject = {
    "timeout_seconds": 3,
    "retry_policy": {"max_retries": 1, "backoff_seconds": 2},
    "deterministic": True,
    "sanitised": True,
    "invoked_at": AT,
    "run_nonce": "ab" * 32,
}
REQUEST = OracleInvocationRequest(
    invocation_id=CALL_ID,
    theatre_id="t",
    episode_id="sum-1",
    construct_id="sums",
    construct_version="0123456",
    input_data={"terms": [1, 2]},
    metadata=METADATA,
)
REQUEST_DOCUMENT: JsonObject = {
    "invocation_id": CALL_ID,
    "theatre_id": "t",
    "episode_id": "sum-1",
    "construct_id": "sums",
    "construct_version": "0123456",
    "input_data": {"terms": [1, 2]},
    "metadata": METADATA_DOCUMENT,
}
RESPONSE = OracleInvocationResponse(
    invocation_id=CALL_ID,
    construct_id="sums",
    construct_version="0123456",
    output_data={"sum": 3},
    latency_ms=4,
    status=InvocationStatus.SUCCESS,
    responded_at=AT,
)
RESPONSE_DOCUMENT: JsonObject = {
    "invocation_id": CALL_ID,
    "construct_id": "sums",
    "construct_version": "0123456",
    "output_data": {"sum": 3},
    "latency_ms": 4,
    "status": "success",
    "error_detail": None,
    "responded_at": AT,
}
ATTEMPT = Attempt(response=RESPONSE, reason="late", raw="x", stderr="y", usage={"input_tokens": 3})
ATTEMPT_DOCUMENT: JsonObject = {
    "response": RESPONSE_DOCUMENT,
    "reason": "late",
    "raw": "x",
    "stderr": "y",
    "usage": {"input_tokens": 3},
}
RECORD: JsonObject = {"seq": 1, "episode_id": "sum-1", "sanitised": None, "calls": [{"hop": 0}]}

FORMS: list[tuple[Form, JsonObject]] = [
    (METADATA, METADATA_DOCUMENT),
    (REQUEST, REQUEST_DOCUMENT),
    (RESPONSE, RESPONSE_DOCUMENT),
    (ATTEMPT, ATTEMPT_DOCUMENT),
    (
        RecordedCall(
            hop=0,
            repeat=1,
            construct_id="sums",
            adapter="local@1",
            version_source="computed",
            request=REQUEST,
            attempts=(ATTEMPT,),
        ),
        {
            "hop": 0,
            "repeat": 1,
            "construct_id": "sums",
            "adapter": "local@1",
            "version_source": "computed",
            "request": REQUEST_DOCUMENT,
            "attempts": [ATTEMPT_DOCUMENT],
        },
    ),
    (EpisodeRecord(seq=1, episode_id="sum-1", sanitised=None, calls=[{"hop": 0}]), RECORD),
    (
        PlayedRecord(
            seq=1,
            episode_id="sum-1",
            sanitised=None,
            calls=[{"hop": 0}],
            runner="duel@1",
            episode_result={"won": True},
        ),
        RECORD | {"runner": "duel@1", "episode_result": {"won": True}},
    ),
    (
        RecordedBatch(
            seqs=((1, 3), (5, 5)),
            records_sha256="a" * 64,
            journal_sha256="b" * 64,
            statuses={"success": 4},
        ),
        {
            "seqs": [[1, 3], [5, 5]],
            "records_sha256": "a" * 64,
            "journal_sha256": "b" * 64,
            "statuses": {"success": 4},
        },
    ),
    (
        EpisodeTrouble(
            seq=2,
            episode_id="sum-2",
            construct_id="sums",
            hop=0,
            status="error",
            reason="crashed",
            error_detail="why",
        ),
        {
            "seq": 2,
            "episode_id": "sum-2",
            "construct_id": "sums",
            "hop": 0,
            "status": "error",
            "reason": "crashed",
            "error_detail": "why",
        },
    ),
]


@pytest.mark.parametrize(
    ("form", "document"), [pytest.param(*pair, id=type(pair[0]).__name__) for pair in FORMS]
)
def test_a_form_is_written_whole_with_the_members_that_it_is_read_by(
    form: Form, document: JsonObject
) -> None:
    assert form.as_document() == document
    assert members_of(type(form)) == document.keys()


def test_a_request_of_a_run_without_a_log_names_no_nonce() -> None:
    sent = replace(METADATA, run_nonce=None).as_document()
    assert {**sent, "run_nonce": "ab" * 32} == METADATA_DOCUMENT
    assert "run_nonce" not in sent


def test_what_a_form_wrote_shares_nothing_with_what_was_sent_and_answered() -> None:
    sent, answered = REQUEST.as_document(), RESPONSE.as_document()
    for written, value in ((sent["input_data"], REQUEST), (answered["output_data"], RESPONSE)):
        assert isinstance(written, dict)
        written["terms"] = "changed"
        assert value.as_document() in (REQUEST_DOCUMENT, RESPONSE_DOCUMENT)


def test_a_real_record_has_the_members_of_its_forms(real_run: SmallRun) -> None:
    raw = (real_run.sealed / "invocations" / "episode_000001.json").read_bytes()
    record = parse_object(raw)
    assert record.keys() == members_of(EpisodeRecord)
    calls = record["calls"]
    assert isinstance(calls, list)
    assert [call.keys() for call in calls if isinstance(call, dict)] == [members_of(RecordedCall)]
