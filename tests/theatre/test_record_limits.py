"""What a construct may send must always fit into records that can be read back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes
from theatre.engine.models import EpisodeOutcome, EpisodeResult, InvocationStatus, Scored
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationMetadata,
    OracleInvocationRequest,
    read_answer,
)
from theatre.files.run_journal import FileRunJournal

THEATRE = "5b9e3a54-2f6c-4c29-9d5f-0a52f8e7a111"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
REQUEST = OracleInvocationRequest(
    invocation_id="i",
    theatre_id=THEATRE,
    episode_id="e",
    construct_id="c",
    construct_version="0123456",
    input_data={},
    metadata=OracleInvocationMetadata(invoked_at="2026-11-21T00:00:00.000000Z"),
)


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels - 1):
        value = {"deeper": value}
    return value


def answer(output: JsonObject) -> bytes:
    return canonical_bytes(
        {
            "invocation_id": "i",
            "construct_id": "c",
            "construct_version": "0123456",
            "status": "success",
            "output_data": output,
        }
    )


def read(raw: bytes) -> Attempt:
    return read_answer(raw, REQUEST, latency_ms=1, responded_at=NOW)


def record(attempts: list[Attempt]) -> EpisodeResult:
    return EpisodeResult(
        seq=1,
        episode_id="e",
        status=InvocationStatus.SUCCESS,
        outcome=EpisodeOutcome.SCORED,
        scores={"right": Scored(0)},
        invocation={
            "seq": 1,
            "episode_id": "e",
            "calls": [{"attempts": [attempt.as_document() for attempt in attempts]}],
        },
    )


def journal_round_trip(folder: Path, result: EpisodeResult) -> EpisodeResult:
    async def write_and_read() -> EpisodeResult:
        event = AuditEvent(event_type="noted", at="2026-11-21T00:00:00.000000Z", detail={})
        await FileRunJournal(folder, THEATRE).append([result], [event])
        return await anext(FileRunJournal(folder, THEATRE).results())

    return asyncio.run(write_and_read())


def test_the_deepest_answer_that_is_accepted_can_be_read_back(tmp_path: Path) -> None:
    # The envelope is one level round `output_data`.
    attempt = read(answer(nested(MAX_INPUT_DEPTH - 1)))
    assert attempt.response.status is InvocationStatus.SUCCESS
    result = record([attempt])
    assert journal_round_trip(tmp_path, result) == result


def test_an_answer_one_level_deeper_is_an_error() -> None:
    attempt = read(answer(nested(MAX_INPUT_DEPTH)))
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "too-deep")


def test_eleven_rejected_answers_full_of_nul_bytes_can_be_read_back(tmp_path: Path) -> None:
    attempts = [read(b"\0" * MAX_ANSWER_BYTES)] * 11
    assert attempts[0].reason == "not-json"
    result = record(attempts)
    assert journal_round_trip(tmp_path, result) == result
