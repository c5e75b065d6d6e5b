"""The audit chain: an append-only log in which each entry names the hash of the one before.

Source: docs/contract/evidence.md §3. A chain cannot show a cut tail or a full rewrite by itself:
its head goes on the certificate as `audit_head`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.errors import ChainBrokenError

GENESIS = "0" * 64
"""`prev_entry_hash` of the first entry."""

ENTRY_KEYS = frozenset(
    {
        "seq",
        "prev_entry_hash",
        "theatre_id",
        "event_type",
        "from_state",
        "to_state",
        "detail",
        "at",
        "entry_hash",
    }
)


class ChainHead(NamedTuple):
    """Where the next entry goes: how many there are, the hash of the last, and its time."""

    length: int = 0
    entry_hash: str = GENESIS
    at: str = ""


class AuditEvent(NamedTuple):
    """What happened, before it has a place in the chain. `at` is RFC 3339 UTC."""

    event_type: str
    at: str
    detail: JsonObject
    from_state: str | None = None
    to_state: str | None = None


def entry_hash(entry: JsonObject) -> str:
    """Return the SHA-256 over the canonical bytes of `entry` without its `entry_hash`."""
    return canonical_sha256({key: value for key, value in entry.items() if key != "entry_hash"})


def next_entry(head: ChainHead, theatre_id: str, event: AuditEvent) -> JsonObject:
    """Return the entry that puts `event` behind `head`.

    Its time is that of the entry before where the clock was set back since: stamps of a theatre
    never go back. (All have the same form, so that the later time is the greater text.)
    """
    entry: JsonObject = {
        "seq": head.length,
        "prev_entry_hash": head.entry_hash,
        "theatre_id": theatre_id,
        "event_type": event.event_type,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "detail": event.detail,
        "at": max(head.at, event.at),
    }
    # Over all members, the previous hash included: a changed entry breaks every later one.
    return entry | {"entry_hash": entry_hash(entry)}


def head_after(entry: JsonObject) -> ChainHead:
    """Return the head of a chain that ends with `entry`."""
    seq, digest, at = entry["seq"], entry["entry_hash"], entry["at"]
    if not (isinstance(seq, int) and isinstance(digest, str) and isinstance(at, str)):
        raise ChainBrokenError("expected an entry with seq, entry_hash and at", line=1)
    return ChainHead(length=seq + 1, entry_hash=digest, at=at)


def verify_chain(entries: Iterable[JsonObject], *, theatre_id: str) -> ChainHead:
    """Verify a whole chain of `theatre_id`, streaming; return its head.

    Raises ChainBrokenError with the line (from 1) at which the chain first breaks.
    """
    head = ChainHead()
    for entry in verified_entries(entries, theatre_id=theatre_id):
        head = head_after(entry)
    return head


def verified_entries(entries: Iterable[JsonObject], *, theatre_id: str) -> Iterator[JsonObject]:
    """Yield each entry once it has been verified against the one before; errors as above."""
    head = ChainHead()
    for entry in entries:
        head = verify_next(head, entry, theatre_id=theatre_id)
        yield entry


def verify_next(head: ChainHead, entry: JsonObject, *, theatre_id: str) -> ChainHead:
    """Return the head behind `entry`, which continues the chain of `head`; errors as above."""
    line = head.length + 1
    # An unknown member would be hashed and trusted without being understood.
    if set(entry) != ENTRY_KEYS:
        odd = sorted(set(entry) ^ ENTRY_KEYS)
        raise ChainBrokenError(f"line {line}: missing or unknown members {odd}", line=line)
    expectations: dict[str, object] = {
        "seq": head.length,
        "prev_entry_hash": head.entry_hash,
        "theatre_id": theatre_id,
        "entry_hash": entry_hash(entry),
    }
    for member, expected in expectations.items():
        seen = entry[member]
        # `is` on the type: True == 1 and 1.0 == 1, but neither is the integer that was hashed.
        if type(seen) is not type(expected) or seen != expected:
            raise ChainBrokenError(
                f"line {line}: expected {member} {expected!r}, got {seen!r}", line=line
            )
    return head_after(entry)
