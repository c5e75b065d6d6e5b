"""Append-only, as a property of two versions: nothing of the earlier one changed."""

from collections.abc import Iterator
from typing import cast

from theatre.debate.models import Finding
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.schema_registry import json_pointer

GROWING = frozenset({"turns", "intervention_log"})
ADDED_ONCE = frozenset({"raud_it", "raudit"})
"""Members that a run may get at its end, and then keeps."""
ABOUT_THE_BYTES = frozenset({"integrity"})
ACCEPTED = frozenset({"content", "recommendation", "rca_trace"})
"""What a further attempt replaces in its turn (rule R10)."""


def find_rewrites(old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    """Yield what `new` changed or removed of `old`; nothing where it only adds to it.

    Both are valid artefacts. Turns and attempts of `old` must be there again, in place and equal
    in canonical form; the last turn may have got members that it did not have, and further
    attempts, unless it had none at all: what it said was then its one attempt.
    """
    for name in sorted((set(old) | set(new)) - GROWING - ABOUT_THE_BYTES):
        is_addition = name in ADDED_ONCE and old.get(name) is None
        if not is_addition and not _same(old, new, name):
            yield _finding(json_pointer(name), f"expected {name} as before, got another")
    yield from _turns(_items(old, "turns"), _items(new, "turns"))
    entries = _items(new, "intervention_log")
    for place, entry in enumerate(_items(old, "intervention_log")):
        if place >= len(entries) or not _equal(entry, entries[place]):
            pointer = json_pointer("intervention_log", place)
            yield _finding(pointer, f"expected intervention {place} as before, got another or none")


def _turns(old: list[JsonObject], new: list[JsonObject]) -> Iterator[Finding]:
    for place, turn in enumerate(old):
        name = f"turn {turn['turn_index']} ({turn['turn_id']})"
        if place >= len(new):
            yield _finding(json_pointer("turns", place), f"expected {name}, got no turn there")
            continue
        is_last = place == len(old) - 1
        yield from _turn(place, name, turn, new[place], may_grow=is_last)


def _turn(
    place: int, name: str, old: JsonObject, new: JsonObject, *, may_grow: bool
) -> Iterator[Finding]:
    before, after = _items(old, "attempts"), _items(new, "attempts")
    for number, attempt in enumerate(before):
        if number >= len(after) or not _equal(attempt, after[number]):
            pointer = json_pointer("turns", place, "attempts", number)
            seen = "another" if number < len(after) else "none"
            yield _finding(pointer, f"expected attempt {number} of {name} as before, got {seen}")
    is_longer = len(after) > len(before)
    has_grown = is_longer and may_grow and before != []
    if is_longer and not has_grown:
        pointer = json_pointer("turns", place, "attempts", len(before))
        why = "it was there without any" if may_grow else "later turns were there"
        yield _finding(pointer, f"expected no further attempt of {name}: {why}")
    free = ACCEPTED if has_grown else frozenset()
    for member in sorted((set(old) | set(new)) - free - {"attempts"}):
        is_addition = may_grow and member not in old
        if not is_addition and not _same(old, new, member):
            pointer = json_pointer("turns", place, member)
            yield _finding(pointer, f"expected {member} of {name} as before, got another")


def _items(document: JsonObject, member: str) -> list[JsonObject]:
    return cast("list[JsonObject]", document.get(member) or [])


def _same(old: JsonObject, new: JsonObject, member: str) -> bool:
    return (member in old) == (member in new) and _equal(old.get(member), new.get(member))


def _equal(old: JsonValue, new: JsonValue) -> bool:
    # Python's == takes 1 for True; the canonical form does not. It is asked only where == holds.
    return old == new and canonical_bytes(old) == canonical_bytes(new)


def _finding(pointer: str, detail: str) -> Finding:
    return Finding(
        pointer=pointer, rule="history", code="HISTORY_REWRITTEN", severity="error", detail=detail
    )
