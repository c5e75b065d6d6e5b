"""The audit chain: it grows by one hash at a time, and every tampering is found at its line."""

import copy
import hashlib
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.audit_chain import (
    ENTRY_KEYS,
    GENESIS,
    AuditEvent,
    ChainHead,
    entry_hash,
    head_after,
    next_entry,
    verified_entries,
    verify_chain,
    verify_next,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import ChainBrokenError

THEATRE = "0b0e8a52-8d0c-5a53-9f3e-6b1f3d0a1c55"
OTHER_THEATRE = "1c1f9b63-9e1d-5b64-8f4f-7c2f4e1b2d66"
OTHER_HASH = hashlib.sha256(b"other").hexdigest()

EVENTS = (
    AuditEvent(
        event_type="transition",
        at="2026-11-21T02:07:00.000000Z",
        detail={},
        from_state="DRAFT",
        to_state="COMMITTED",
    ),
    AuditEvent(
        event_type="episodes",
        at="2026-11-21T02:07:01.000000Z",
        detail={"count": 1, "share": 0.5, "ids": ["a", "b"], "resumed": False, "note": None},
    ),
    AuditEvent(event_type="failure", at="2026-11-21T02:07:02.000000Z", detail={"seq": 2}),
    AuditEvent(event_type="sealed", at="2026-11-21T02:07:03.000000Z", detail={"n": {"x": [1]}}),
)


def chain_of(*events: AuditEvent, theatre_id: str = THEATRE) -> list[JsonObject]:
    entries: list[JsonObject] = []
    head = ChainHead()
    for event in events:
        entries.append(copy.deepcopy(next_entry(head, theatre_id, event)))
        head = head_after(entries[-1])
    return entries


def line_of_break(entries: list[JsonObject], theatre_id: str = THEATRE) -> int:
    with pytest.raises(ChainBrokenError) as caught:
        verify_chain(entries, theatre_id=theatre_id)
    assert str(caught.value).startswith(f"line {caught.value.line}: ")
    return caught.value.line


def rehashed(entry: JsonObject) -> JsonObject:
    return entry | {"entry_hash": entry_hash(entry)}


def test_an_entry_is_hashed_over_all_its_members_but_the_hash() -> None:
    first, second = chain_of(*EVENTS[:2])
    content: JsonObject = {
        "seq": 0,
        "prev_entry_hash": "0" * 64,
        "theatre_id": THEATRE,
        "event_type": "transition",
        "from_state": "DRAFT",
        "to_state": "COMMITTED",
        "detail": {},
        "at": "2026-11-21T02:07:00.000000Z",
    }
    digest = hashlib.sha256(rfc8785.dumps(content)).hexdigest()
    assert first == content | {"entry_hash": digest}
    assert first.keys() == ENTRY_KEYS
    assert (second["seq"], second["prev_entry_hash"]) == (1, digest)


def test_a_whole_chain_verifies_to_its_head() -> None:
    entries = chain_of(*EVENTS)
    head = ChainHead(length=4, entry_hash=cast("str", entries[-1]["entry_hash"]), at=EVENTS[-1].at)
    assert verify_chain(entries, theatre_id=THEATRE) == head
    assert head_after(entries[-1]) == head
    assert list(verified_entries(iter(entries), theatre_id=THEATRE)) == entries


def test_no_entry_at_all_is_the_head_of_the_beginning() -> None:
    assert verify_chain([], theatre_id=THEATRE) == ChainHead(length=0, entry_hash=GENESIS)
    assert GENESIS == "0" * 64


def test_an_entry_is_never_stamped_before_the_one_in_front_of_it() -> None:
    head = verify_chain(chain_of(*EVENTS[:2]), theatre_id=THEATRE)
    earlier = EVENTS[2]._replace(at="2020-01-01T00:00:00.000000Z")
    entry = next_entry(head, THEATRE, earlier)
    assert (entry["at"], head_after(entry).at) == (EVENTS[1].at, EVENTS[1].at)
    assert verify_next(head, entry, theatre_id=THEATRE) == head_after(entry)


def test_a_chain_goes_on_from_its_stored_head() -> None:
    head = verify_chain(chain_of(*EVENTS[:3]), theatre_id=THEATRE)
    assert next_entry(head, THEATRE, EVENTS[3]) == chain_of(*EVENTS)[3]


def test_members_in_another_order_are_the_same_entry() -> None:
    entries = [dict(reversed(entry.items())) for entry in chain_of(*EVENTS)]
    assert verify_chain(entries, theatre_id=THEATRE) == verify_chain(
        chain_of(*EVENTS), theatre_id=THEATRE
    )


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_removed_entry_breaks_the_line_that_takes_its_place(line: int) -> None:
    entries = chain_of(*EVENTS)
    removed = entries.pop(line - 1)
    if line <= 3:
        assert line_of_break(entries) == line
    else:
        head = verify_chain(entries, theatre_id=THEATRE)
        assert (head.length, head.entry_hash) == (3, removed["prev_entry_hash"])


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_repeated_entry_breaks_at_its_second_line(line: int) -> None:
    entries = chain_of(*EVENTS)
    entries.insert(line, copy.deepcopy(entries[line - 1]))
    assert line_of_break(entries) == line + 1


@pytest.mark.parametrize(("one", "other"), [(1, 2), (1, 4), (2, 3), (2, 4), (3, 4)])
def test_swapped_entries_break_at_the_first_of_the_two_lines(one: int, other: int) -> None:
    entries = chain_of(*EVENTS)
    entries[one - 1], entries[other - 1] = entries[other - 1], entries[one - 1]
    assert line_of_break(entries) == one


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_well_made_insertion_breaks_the_line_behind_it(line: int) -> None:
    entries = chain_of(*EVENTS)
    head = ChainHead() if line == 1 else head_after(entries[line - 2])
    forged = AuditEvent(event_type="forged", at="2026-11-21T02:07:09.000000Z", detail={})
    entries.insert(line - 1, next_entry(head, THEATRE, forged))
    assert line_of_break(entries) == line + 1


@pytest.mark.parametrize("line", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("seq", 7),
        ("seq", -1),
        ("prev_entry_hash", OTHER_HASH),
        ("theatre_id", OTHER_THEATRE),
        ("event_type", "transitioN"),
        ("from_state", "ACTIVE"),
        ("from_state", ""),
        ("to_state", "RESOLVED"),
        ("detail", {"changed": True}),
        ("detail", None),
        ("at", "2026-11-21T02:08:00.000000Z"),
        ("entry_hash", OTHER_HASH),
        ("entry_hash", None),
    ],
)
def test_a_changed_member_breaks_its_own_line(line: int, member: str, value: JsonValue) -> None:
    entries = chain_of(*EVENTS)
    entries[line - 1][member] = value
    assert line_of_break(entries) == line


@pytest.mark.parametrize("member", ["seq", "prev_entry_hash", "theatre_id"])
def test_a_changed_place_breaks_its_own_line_even_with_a_new_hash(member: str) -> None:
    values: JsonObject = {"seq": 7, "prev_entry_hash": OTHER_HASH, "theatre_id": OTHER_THEATRE}
    entries = chain_of(*EVENTS)
    entries[1] = rehashed(entries[1] | {member: values[member]})
    assert line_of_break(entries) == 2


@pytest.mark.parametrize("member", ["event_type", "from_state", "to_state", "detail", "at"])
def test_a_changed_event_with_a_new_hash_breaks_the_next_line(member: str) -> None:
    entries = chain_of(*EVENTS)
    entries[1] = rehashed(entries[1] | {member: "forged"})
    assert line_of_break(entries) == 3


@pytest.mark.parametrize(("line", "value"), [(1, 0.0), (1, False), (2, 1.0), (2, True), (2, "1")])
def test_a_sequence_number_of_another_type_breaks_its_line(line: int, value: JsonValue) -> None:
    entries = chain_of(*EVENTS)
    entries[line - 1]["seq"] = value
    assert line_of_break(entries) == line


@pytest.mark.parametrize("value", [True, "1", [1], {"": 1}, None])
def test_a_detail_of_another_type_breaks_its_line(value: JsonValue) -> None:
    entries = chain_of(*EVENTS)
    cast("JsonObject", entries[1]["detail"])["count"] = value
    assert line_of_break(entries) == 2


def test_1_and_1_0_in_a_detail_are_the_same_json_number() -> None:
    # RFC 8785 writes both as 1. The spelling is the business of whoever compares the bytes.
    entries = chain_of(*EVENTS)
    cast("JsonObject", entries[1]["detail"])["count"] = 1.0
    assert verify_chain(entries, theatre_id=THEATRE) == verify_chain(
        chain_of(*EVENTS), theatre_id=THEATRE
    )


@pytest.mark.parametrize("member", sorted(ENTRY_KEYS))
def test_a_missing_member_breaks_its_line_and_is_named(member: str) -> None:
    entries = chain_of(*EVENTS)
    del entries[2][member]
    with pytest.raises(ChainBrokenError, match=f"^line 3: .*'{member}'") as caught:
        verify_chain(entries, theatre_id=THEATRE)
    assert caught.value.line == 3


def test_a_further_member_breaks_its_line_and_is_named() -> None:
    entries = chain_of(*EVENTS)
    entries[0] = rehashed(entries[0] | {"remark": ""})
    with pytest.raises(ChainBrokenError, match=r"^line 1: .*'remark'"):
        verify_chain(entries, theatre_id=THEATRE)


def test_the_chain_of_another_theatre_breaks_at_once() -> None:
    assert line_of_break(chain_of(*EVENTS, theatre_id=OTHER_THEATRE)) == 1
    assert line_of_break(chain_of(*EVENTS), theatre_id=OTHER_THEATRE) == 1


def test_what_a_chain_alone_cannot_show_shows_in_its_head() -> None:
    anchored = verify_chain(chain_of(*EVENTS), theatre_id=THEATRE)
    cut_tail = verify_chain(chain_of(*EVENTS)[:2], theatre_id=THEATRE)
    rewritten = verify_chain(chain_of(*reversed(EVENTS)), theatre_id=THEATRE)
    assert (anchored.length, cut_tail.length, rewritten.length) == (4, 2, 4)
    assert len({anchored.entry_hash, cut_tail.entry_hash, rewritten.entry_hash}) == 3


def test_entries_before_the_break_are_handed_out_and_none_after_it() -> None:
    entries = chain_of(*EVENTS)
    entries[2]["at"] = "never"
    stream = verified_entries(entries, theatre_id=THEATRE)
    assert [next(stream), next(stream)] == entries[:2]
    with pytest.raises(ChainBrokenError, match=r"^line 3: expected entry_hash "):
        next(stream)


@pytest.mark.parametrize("odd", [{"seq": "0"}, {"entry_hash": 1}, {"at": None}])
def test_an_entry_without_a_place_has_no_head(odd: JsonObject) -> None:
    with pytest.raises(ChainBrokenError, match="expected an entry with seq, entry_hash and at"):
        head_after(chain_of(*EVENTS)[0] | odd)


LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "é", 0.5])
DETAILS = st.dictionaries(
    st.text("ab", max_size=2),
    LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.just("k"), LEAVES),
    max_size=3,
)


def leaf_paths(value: JsonValue, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every scalar and every empty container below `value`."""
    if isinstance(value, dict) and value:
        return [found for key in value for found in leaf_paths(value[key], (*path, key))]
    if isinstance(value, list) and value:
        return [found for at, item in enumerate(value) for found in leaf_paths(item, (*path, at))]
    return [path]


@given(st.lists(DETAILS, min_size=1, max_size=5), st.data())
def test_any_change_of_any_leaf_breaks_its_line(
    details: list[JsonObject], data: st.DataObject
) -> None:
    events = [
        AuditEvent(event_type="event", at="2026-11-21T02:07:00.000000Z", detail=detail)
        for detail in details
    ]
    entries = chain_of(*events)
    line = data.draw(st.integers(1, len(entries)))
    *parents, leaf = data.draw(st.sampled_from(leaf_paths(entries[line - 1])))
    holder: Any = entries[line - 1]
    for step in parents:
        holder = holder[step]
    before = canonical_bytes(holder[leaf])
    holder[leaf] = data.draw(LEAVES.filter(lambda new: canonical_bytes(new) != before))
    assert line_of_break(entries) == line
