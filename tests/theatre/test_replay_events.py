"""What the audit chain says of recorded episodes: one event a batch, one a failure or refusal."""

import hashlib
from dataclasses import replace

import pytest
import rfc8785

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import JournalError
from theatre.engine.models import EpisodeOutcome, EpisodeResult, InvocationRecord, InvocationStatus
from theatre.engine.replay.recording import (
    batch_events,
    last_latency,
    read_sequences,
    trouble_events,
)

AT = "2026-11-21T12:00:00.000000Z"
OUTCOMES = {
    InvocationStatus.SUCCESS: EpisodeOutcome.SCORED,
    InvocationStatus.TIMEOUT: EpisodeOutcome.MISSING,
    InvocationStatus.ERROR: EpisodeOutcome.MISSING,
    InvocationStatus.REFUSED: EpisodeOutcome.EXCLUDED,
}


def attempt(reason: str | None, detail: str | None, latency_ms: int) -> JsonObject:
    status = "success" if reason is None else "timeout" if reason == "timeout" else "error"
    response: JsonObject = {"status": status, "error_detail": detail, "latency_ms": latency_ms}
    return {"reason": reason, "response": response}


def call(hop: int, construct_id: str, *attempts: JsonObject, repeat: int = 0) -> JsonObject:
    return {"hop": hop, "repeat": repeat, "construct_id": construct_id, "attempts": [*attempts]}


def result(seq: int, status: InvocationStatus = InvocationStatus.SUCCESS) -> EpisodeResult:
    """Return an episode whose last attempt is the one that counts."""
    attempts = [attempt("crashed", "first try", 90), attempt("timeout", f"last of {seq}", seq)]
    return EpisodeResult(
        seq=seq,
        episode_id=f"e{seq}",
        status=status,
        outcome=OUTCOMES[status],
        scores={},
        facts={},
        record=InvocationRecord({"seq": seq, "calls": [call(0, "pilot", *attempts)]}),
    )


def trouble(seq: int, status: str) -> JsonObject:
    return {
        "seq": seq,
        "episode_id": f"e{seq}",
        "construct_id": "pilot",
        "hop": 0,
        "status": status,
        "reason": "timeout",
        "error_detail": f"last of {seq}",
    }


def entry_of(event: AuditEvent) -> JsonObject:
    return {"event_type": event.event_type, "detail": event.detail}


MIXED = [
    result(9),
    result(2, InvocationStatus.REFUSED),
    result(8, InvocationStatus.TIMEOUT),
    result(1),
    result(3, InvocationStatus.ERROR),
]


def test_a_batch_is_one_event_with_ranges_counts_and_digest_then_its_troubles_in_order() -> None:
    records = [one.record.document for one in sorted(MIXED, key=lambda one: one.seq)]
    lines = b"".join(rfc8785.dumps(record) + b"\n" for record in records)
    results = [one.as_document() for one in sorted(MIXED, key=lambda one: one.seq)]
    journalled = b"".join(rfc8785.dumps(result) + b"\n" for result in results)
    assert batch_events(MIXED, at=AT) == [
        AuditEvent(
            event_type="episodes_recorded",
            at=AT,
            detail={
                "seqs": [[1, 3], [8, 9]],
                "records_sha256": hashlib.sha256(lines).hexdigest(),
                "journal_sha256": hashlib.sha256(journalled).hexdigest(),
                "statuses": {"success": 2, "timeout": 1, "error": 1, "refused": 1},
            },
        ),
        AuditEvent(event_type="episode_refused", at=AT, detail=trouble(2, "refused")),
        AuditEvent(event_type="episode_failed", at=AT, detail=trouble(3, "error")),
        AuditEvent(event_type="episode_failed", at=AT, detail=trouble(8, "timeout")),
    ]


def test_no_event_is_a_transition() -> None:
    assert {(e.from_state, e.to_state) for e in batch_events(MIXED, at=AT)} == {(None, None)}


def test_successes_make_no_trouble() -> None:
    assert list(trouble_events([result(1), result(2)], at=AT)) == []


def test_the_chain_says_which_episodes_it_names() -> None:
    recorded, *troubles = [entry_of(event) for event in batch_events(MIXED, at=AT)]
    assert read_sequences(recorded) == [range(1, 4), range(8, 10)]
    assert [read_sequences(entry) for entry in troubles] == [[], [], []]


@pytest.mark.parametrize("detail", [{}, {"seqs": 1}, {"seqs": [[1]]}, {"seqs": [["1", "2"]]}])
def test_a_batch_that_no_run_has_written_names_nothing(detail: JsonObject) -> None:
    entry: JsonObject = {"seq": 7, "event_type": "episodes_recorded", "detail": detail}
    with pytest.raises(JournalError, match="expected the episodes of a batch in audit entry 7"):
        read_sequences(entry)


@pytest.mark.parametrize("seq", [1, 40])
def test_the_latency_of_an_episode_is_that_of_the_answer_that_counts(seq: int) -> None:
    assert last_latency(result(seq).record.document) == seq


def ended(status: InvocationStatus, *calls: JsonObject) -> EpisodeResult:
    return replace(result(4, status), record=InvocationRecord({"seq": 4, "calls": [*calls]}))


def test_a_failure_names_the_hop_and_the_construct_that_ended_the_round() -> None:
    failed = ended(
        InvocationStatus.TIMEOUT,
        call(0, "easel", attempt(None, None, 5)),
        call(1, "artisan", attempt("timeout", "took too long", 80)),
    )
    (event,) = trouble_events([failed], at=AT)
    assert event.detail == {
        "seq": 4,
        "episode_id": "e4",
        "construct_id": "artisan",
        "hop": 1,
        "status": "timeout",
        "reason": "timeout",
        "error_detail": "took too long",
    }
    assert last_latency(failed.record.document) == 80


def test_a_second_round_is_no_answer_and_its_failure_no_trouble() -> None:
    repeated = ended(
        InvocationStatus.SUCCESS,
        call(0, "easel", attempt(None, None, 5)),
        call(1, "artisan", attempt(None, None, 6)),
        call(0, "easel", attempt("crashed", "gone", 70), repeat=1),
    )
    assert list(trouble_events([repeated], at=AT)) == []
    assert last_latency(repeated.record.document) == 6
