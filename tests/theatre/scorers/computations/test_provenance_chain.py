"""`provenance_chain`: every way to tamper with a log of records, and the line that shows it."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.scorers.computations.provenance_chain import COMPUTATION, MAX_RECORD_BYTES
from theatre.scorers.hash_chain import record_hash

OBSERVER = (
    Path(__file__).parents[4] / "fixtures" / "ground_truth" / "product_observer_provenance_v1.jsonl"
)
NO_FAULTS = {"unreadable": 0, "incomplete": 0, "hash": 0, "prev_hash": 0, "id": 0, "timestamp": 0}

Log = list[JsonObject]


def linked(records: Log) -> Log:
    """Return `records` chained anew from the first on."""
    result: Log = []
    for record in records:
        previous: JsonValue = result[-1]["hash"] if result else "0" * 64
        chained = {**record, "prev_hash": previous}
        result.append({**chained, "hash": record_hash(chained)})
    return result


LOG = linked(
    [
        {"id": f"r{n}", "timestamp": f"2026-05-12T08:00:0{n}Z", "content": f"note {n}"}
        for n in range(1, 6)
    ]
)


def verify(log: Log, **params: JsonValue) -> JsonObject:
    return COMPUTATION.compute(map(canonical_bytes, log), params)


def broken(records: int, line: int, fault: str, **faults: int) -> JsonObject:
    return {
        "records": records,
        "intact": False,
        "first_broken_line": line,
        "first_fault": fault,
        "faults": {**NO_FAULTS, **faults},
        "head": None,
    }


def test_an_intact_log_names_its_length_and_its_head() -> None:
    assert verify(LOG) == {
        "records": 5,
        "intact": True,
        "first_broken_line": None,
        "first_fault": None,
        "faults": NO_FAULTS,
        "head": LOG[-1]["hash"],
    }


def test_the_hash_is_the_sha_256_of_the_record_s_canonical_json_without_it() -> None:
    text = (
        '{"content":"note 1","id":"r1","prev_hash":"' + "0" * 64 + '",'
        '"timestamp":"2026-05-12T08:00:01Z"}'
    )
    assert LOG[0]["hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_log_without_records_shows_nothing() -> None:
    assert verify([]) == {
        "records": 0,
        "intact": False,
        "first_broken_line": None,
        "first_fault": None,
        "faults": NO_FAULTS,
        "head": None,
    }


def test_the_observer_records_are_one_intact_and_complete_chain() -> None:
    lines = OBSERVER.read_bytes().splitlines()
    required: list[JsonValue] = ["source_type", "user_id", "content", "canvas", "collector"]
    assert COMPUTATION.compute(lines, {"required": required}) == {
        "records": 163,
        "intact": True,
        "first_broken_line": None,
        "first_fault": None,
        "faults": NO_FAULTS,
        "head": json.loads(lines[-1])["hash"],
    }


def changed(log: Log, at: int, **members: JsonValue) -> Log:
    return [{**record, **members} if n == at else record for n, record in enumerate(log)]


def rehashed(log: Log, at: int, **members: JsonValue) -> Log:
    record = {**log[at], **members}
    return changed(log, at, **{**members, "hash": record_hash(record)})


@pytest.mark.parametrize(
    ("tampered", "seen"),
    [
        (changed(LOG, 2, content="note three"), broken(5, 3, "hash", hash=1)),
        (changed(LOG, 2, canvas="pricing"), broken(5, 3, "hash", hash=1)),
        (changed(LOG, 2, content=3), broken(5, 3, "hash", hash=1)),
        (rehashed(LOG, 2, content="note three"), broken(5, 4, "prev_hash", prev_hash=1)),
        (rehashed(LOG, 4, prev_hash="f" * 64), broken(5, 5, "prev_hash", prev_hash=1)),
        (rehashed(LOG, 0, prev_hash=None), broken(5, 1, "prev_hash", prev_hash=2)),
        (changed(LOG, 2, hash=None), broken(5, 3, "hash", hash=1, prev_hash=1)),
        (LOG[:2] + LOG[3:], broken(4, 3, "prev_hash", prev_hash=1)),
        (LOG[1:], broken(4, 1, "prev_hash", prev_hash=1)),
        (
            [*LOG[:3], LOG[2], *LOG[3:]],
            broken(6, 4, "prev_hash", prev_hash=1, id=1),
        ),
        (
            [LOG[0], LOG[2], LOG[1], *LOG[3:]],
            broken(5, 2, "prev_hash", prev_hash=3, timestamp=1),
        ),
        (linked(changed(LOG, 3, id="r2")), broken(5, 4, "id", id=1)),
        (linked(changed(LOG, 3, id="")), broken(5, 4, "id", id=1)),
        (linked(changed(LOG, 3, id=4)), broken(5, 4, "id", id=1)),
        (
            linked(changed(LOG, 3, timestamp="2026-05-12T08:00:02Z")),
            broken(5, 4, "timestamp", timestamp=1),
        ),
        (
            linked(changed(LOG, 3, timestamp="2026-05-12T08:00:09Z")),
            broken(5, 5, "timestamp", timestamp=1),
        ),
        (
            linked(changed(LOG, 3, timestamp="2026-05-12T10:00:04+02:00")),
            broken(5, 4, "timestamp", timestamp=1),
        ),
        (linked(changed(LOG, 3, timestamp=None)), broken(5, 4, "timestamp", timestamp=1)),
        (
            linked(changed(LOG, 0, timestamp=None, id=None)),
            broken(5, 1, "id", id=1, timestamp=1),
        ),
        (
            changed(linked(changed(LOG, 3, id="r1")), 1, hash="x"),
            broken(5, 2, "hash", hash=1, prev_hash=1, id=1),
        ),
    ],
)  # fmt: skip
def test_tampering_is_named_by_line_and_fault(tampered: Log, seen: JsonObject) -> None:
    assert verify(tampered) == seen


def test_the_order_of_members_and_equal_times_change_nothing() -> None:
    same_time = linked(changed(LOG, 3, timestamp="2026-05-12T08:00:03.000Z"))
    lines = [json.dumps(dict(reversed(record.items()))).encode() for record in same_time]
    assert COMPUTATION.compute(lines, {})["head"] == same_time[-1]["hash"]


def test_a_cut_tail_is_an_intact_chain_with_another_head() -> None:
    seen = verify(LOG[:4])
    assert (seen["intact"], seen["records"]) == (True, 4)
    assert seen["head"] == LOG[3]["hash"] != LOG[4]["hash"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[]",
        b'"r3"',
        b"\xff",
        b'{"id":"r3","id":"r3"}',
        b'{"id":NaN}',
        b'{"id":"\\ud800"}',
        b"[" * 5000,
        b"{" + b" " * MAX_RECORD_BYTES + b"}",
    ],
    ids=range(10),
)
def test_a_line_that_is_no_strict_json_object_breaks_itself_and_the_link_to_it(line: bytes) -> None:
    lines = [canonical_bytes(record) for record in LOG]
    lines[2] = line
    assert COMPUTATION.compute(lines, {}) == broken(5, 3, "unreadable", unreadable=1, prev_hash=1)


def test_nothing_links_to_a_line_that_cannot_be_read() -> None:
    lines = [canonical_bytes(record) for record in LOG]
    inserted = [*lines[:2], b"not json", *lines[2:]]
    assert COMPUTATION.compute(inserted, {}) == broken(
        6, 3, "unreadable", unreadable=1, prev_hash=1
    )
    unlinked = {key: value for key, value in LOG[1].items() if key not in {"prev_hash", "hash"}}
    unlinked["hash"] = record_hash(unlinked)
    assert COMPUTATION.compute([b"not json", canonical_bytes(unlinked)], {}) == broken(
        2, 1, "unreadable", unreadable=1, prev_hash=1
    )


@pytest.mark.parametrize("value", [None, "", "  ", [], {}])
def test_a_required_member_that_is_not_filled_is_a_fault(value: JsonValue) -> None:
    log = linked(changed(LOG, 1, content=value))
    assert verify(log)["intact"] is True
    assert verify(log, required=["content"]) == broken(5, 2, "incomplete", incomplete=1)
    assert verify(log, required=["id", "source.type"]) == broken(5, 1, "incomplete", incomplete=5)


@given(st.integers(0, 4), st.sampled_from(sorted(LOG[0])), HOSTILE_JSON)
def test_any_other_value_in_any_member_is_caught(line: int, member: str, value: JsonValue) -> None:
    text = json.dumps({**LOG[line], member: value}).encode()
    lines = [*map(canonical_bytes, LOG[:line]), text, *map(canonical_bytes, LOG[line + 1 :])]
    seen = COMPUTATION.compute(lines, {})
    assert seen["intact"] is False
    assert seen["first_broken_line"] == line + 1


@given(st.lists(st.binary(max_size=30) | HOSTILE_JSON.map(lambda x: json.dumps(x).encode())))
def test_any_bytes_are_judged(lines: list[bytes]) -> None:
    seen = COMPUTATION.compute(lines, {})
    assert seen["records"] == len(lines)
    assert seen["intact"] is False
    assert seen["first_broken_line"] == (1 if lines else None)
    assert json.loads(canonical_bytes(seen)) == seen


@given(st.permutations(LOG))
def test_only_the_written_order_is_intact(log: Log) -> None:
    assert verify(log)["intact"] is (log == LOG)


def test_the_log_is_read_as_a_stream() -> None:
    def lines(ahead: Callable[[], int]) -> Iterator[bytes]:
        for number, record in enumerate(LOG, start=1):
            assert ahead() == number - 1
            yield canonical_bytes(record)

    taken: list[bytes] = []

    def counted() -> Iterator[bytes]:
        for line in lines(lambda: len(taken)):
            yield line
            taken.append(line)

    assert COMPUTATION.compute(counted(), {})["intact"] is True
    assert len(taken) == 5
