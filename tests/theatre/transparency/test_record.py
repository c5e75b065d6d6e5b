"""A construct's record follows from the log's entries, and what is wrong with them is named."""

from datetime import UTC, datetime, timedelta

import pytest

from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.transparency.entries import EntryType, VoidReason, decode_entry, encode_entry
from theatre.transparency.errors import EntryError
from theatre.transparency.record import LogRecord
from theatre.transparency.run_entries import void_reason

DAY = datetime(2026, 12, 24, tzinfo=UTC)
HASH = "ab" * 32


def committed(theatre: str, *, construct: str = "observer", close_by: str = "2026-12-23") -> bytes:
    """Return the entry of a commitment."""
    members: JsonObject = {
        "theatre_id": theatre,
        "construct_id": construct,
        "construct_version": "1" * 64,
        "template_id": "product_observer_v1",
        "commitment_hash": HASH,
        "coin_sha256": HASH,
        "close_by": f"{close_by}T00:00:00.000000Z",
    }
    return encode_entry(EntryType.COMMITMENT, members)


def certified(theatre: str, index: int) -> bytes:
    """Return the entry of a certificate."""
    members: JsonObject = {
        "theatre_id": theatre,
        "commitment_index": index,
        "statement_sha256": HASH,
        "tier": "BACKTESTED",
        "expires_at": None,
    }
    return encode_entry(EntryType.CERTIFICATE, members)


def void(theatre: str, index: int, reason: VoidReason = VoidReason.CANCELLED) -> bytes:
    """Return the entry of a run without a certificate."""
    members: JsonObject = {"theatre_id": theatre, "commitment_index": index, "reason": reason.value}
    return encode_entry(EntryType.VOID, members)


def record_of(*entries: bytes) -> LogRecord:
    """Return the record of a log with these entries."""
    record = LogRecord()
    for index, data in enumerate(entries):
        record.take(index, data)
    return record


def test_five_runs_of_which_one_is_shown_are_counted_as_five() -> None:
    record = record_of(
        *(committed(f"t{number}") for number in range(4)),
        committed("t4", close_by="2026-12-31"),
        void("t0", 0, VoidReason.FAILED),
        void("t1", 1),
        certified("t2", 2),
        committed("else", construct="easel"),
    )
    assert record.counts("observer", now=DAY).as_document() == {
        "commitments": 5,
        "certified": 1,
        "void": {"cancelled": 1, "failed": 1},
        "open": 2,
        "overdue": 1,
    }
    first, alone = record.place(2, now=DAY), record.place(8, now=DAY)
    assert str(first) == "run 3 of 5, the other 4: 1 cancelled, 1 failed, 1 open, 1 overdue"
    assert str(alone) == "run 1 of 1"
    assert [one.theatre_id for one in record.overdue(DAY)] == ["t3", "else"]
    assert record.overdue(DAY - timedelta(days=2)) == []
    assert record.faults == []


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([committed("t"), committed("t")], "committed-twice"),
        ([committed("t"), void("t", 0), certified("t", 0)], "closed-twice"),
        ([committed("t"), certified("t", 0), void("t", 0)], "closed-twice"),
        ([void("t", 3)], "closes-nothing"),
        ([certified("t", 1), committed("t")], "closes-nothing"),
        ([committed("t"), certified("another", 0)], "closes-nothing"),
        ([b"no entry"], "entry-invalid"),
        ([committed("t", close_by="soon")], "entry-invalid"),
    ],
)
def test_what_an_operator_may_not_log_is_a_fault(entries: list[bytes], code: str) -> None:
    record = record_of(*entries)
    assert [fault.code for fault in record.faults] == [code]


def test_an_entry_at_an_index_that_closes_nothing_changes_no_count() -> None:
    record = record_of(committed("t"), certified("other", 0), certified("t", 7))
    assert record.counts("observer", now=DAY).certified == 0
    assert len(record.faults) == 2


@pytest.mark.parametrize(
    "data",
    [
        committed("t") + b"\n",
        committed("t").replace(b"observer", b"obs\\u0065rver"),
        canonical_bytes({"type": "commitment/v2"}),
        canonical_bytes({"type": "void/v1", "theatre_id": "t", "reason": "failed"}),
        canonical_bytes(
            {"type": "void/v1", "theatre_id": "t", "reason": "failed", "commitment_index": True}
        ),
        canonical_bytes(
            {"type": "void/v1", "theatre_id": "t" * 1100, "reason": "f", "commitment_index": 1}
        ),
        b"[]",
    ],
)
def test_another_form_is_no_entry(data: bytes) -> None:
    with pytest.raises(EntryError):
        decode_entry(data)


@pytest.mark.parametrize(
    ("outcome", "reason", "void"),
    [
        ("no_certificate", "nothing-scored", VoidReason.NOTHING_SCORED),
        ("void", "cancelled", VoidReason.CANCELLED),
        ("void", "not-closed-in-time", VoidReason.ABANDONED),
        ("failed", "workers-lost", VoidReason.FAILED),
        ("failed", None, VoidReason.FAILED),
    ],
)
def test_a_void_says_how_its_theatre_ended(
    outcome: str, reason: str | None, void: VoidReason
) -> None:
    assert void_reason({"outcome": outcome, "outcome_reason": reason}) is void


def asked(request: str = HASH, open_by: str = "2026-12-23") -> bytes:
    """Return the entry of an audit's request."""
    day = f"{open_by}T00:00:00.000000Z"
    members: JsonObject = {"statement_sha256": HASH, "envelope_sha256": request, "open_by": day}
    return encode_entry(EntryType.DISPUTE, members)


def answered(request: str = HASH, statement: str = HASH) -> bytes:
    """Return the entry of an answer to it."""
    members: JsonObject = {"statement_sha256": statement, "envelope_sha256": "cd" * 32}
    return encode_entry(EntryType.ATTESTATION, members | {"answers": request})


def test_an_audit_that_nothing_answers_by_its_day_is_overdue() -> None:
    record = record_of(
        asked(), asked("12" * 32), answered("12" * 32), asked("34" * 32, "2026-12-25")
    )
    assert [one.index for one in record.overdue_audits(DAY)] == [0]
    assert [one.answered_at for one in record.audits.values()] == [None, 2, None]
    assert record.faults == []


def test_an_audit_cannot_be_asked_for_twice_nor_answered_for_another() -> None:
    record = record_of(asked(), asked(open_by="2027-12-23"), answered("12" * 32))
    assert [(one.index, one.code) for one in record.faults] == [
        (1, "asked-twice"),
        (2, "answers-nothing"),
    ]
    record = record_of(answered(), asked(), answered(statement="12" * 32))
    assert [(one.index, one.code) for one in record.faults] == [
        (0, "answers-nothing"),
        (2, "answers-nothing"),
    ]
    assert [one.index for one in record.overdue_audits(DAY)] == [1]
