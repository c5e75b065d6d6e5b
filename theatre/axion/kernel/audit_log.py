"""The audit log: one entry a line, each with the hash of the one before, denials included.

It is the engine's chain with this package's entries and profile (`schemas/audit_entry.json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes, canonical_line
from theatre.axion.common.hashing import NO_HASH, Document, derived_id, hash_json
from theatre.axion.common.schema_load import violations
from theatre.engine.audit_chain import GENESIS, ChainHead
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import ChainBrokenError, ParseError

MAX_NOTES, MAX_LINE_BYTES = 4000, 1024 * 1024
_LF = b"\n"


class LogicalClock:
    """Milliseconds that follow from what happened: episode · 10^6 + one for each question."""

    def __init__(self) -> None:
        self._now = 0

    def begin(self, episode: int) -> None:
        """Go to the time at which episode number `episode` (from 0) begins."""
        self._now = episode * 1_000_000

    def __call__(self) -> int:
        """Return the next millisecond."""
        self._now += 1
        return self._now


class AuditLog:
    """Appends entries to one file and knows its head. It is the file's only writer."""

    def __init__(self, stream: BinaryIO, *, seed: object, clock: Callable[[], int]) -> None:
        self._stream = stream
        self._seed = seed
        self._clock = clock
        self._head = ChainHead()
        self._slice: list[Document] = []

    @property
    def slice(self) -> list[Document]:
        """Return the entries since `slice_from_here`, for a counterexample."""
        return list(self._slice)

    def slice_from_here(self) -> None:
        """Let the slice begin with the next entry."""
        self._slice.clear()

    @property
    def head(self) -> ChainHead:
        """Return how many entries there are, and the hash of the last."""
        return self._head

    def append(
        self,
        event: str,
        *,
        verdict: str = "deny",
        notes: str = "",
        witnesses: Sequence[Document] = (),
        tokens: Sequence[Document] = (),
        proposal_hash: str = NO_HASH,
        trace_hash: str = NO_HASH,
    ) -> Document:
        """Write one entry, flush it, and return it."""
        entry: Document = {
            "entry_id": derived_id("entry", self._seed, self._head.length),
            "timestamp_ms": self._clock(),
            "prev_entry_hash": self._head.entry_hash,
            "event": event,
            "proposal_hash": proposal_hash,
            "trace_hash": trace_hash,
            "kernel_decision": {"verdict": verdict, "notes": notes[:MAX_NOTES]},
            "witnesses": list(witnesses),
            "capability_tokens": list(tokens),
        }
        entry["entry_hash"] = hash_json(entry)
        self._stream.write(canonical_line(entry))
        self._stream.flush()
        self._head = ChainHead(self._head.length + 1, entry["entry_hash"])
        self._slice.append(entry)
        return entry


def verify_log(
    path: Path, *, expected_head: str | None = None, expected_count: int | None = None
) -> ChainHead:
    """Verify the log at `path` line by line; return its head.

    Without the expectations, which a report carries, a cut tail cannot be seen. Raises
    ChainBrokenError with the line (from 1) at which it breaks, and OSError.
    """
    with path.open("rb") as stream:
        head = verify_lines(stream)
    if expected_count not in (None, head.length):
        raise ChainBrokenError(
            f"expected {expected_count} entries, got {head.length}", line=head.length + 1
        )
    if expected_head not in (None, head.entry_hash):
        raise ChainBrokenError(
            f"expected the head {expected_head}, got {head.entry_hash}", line=head.length
        )
    return head


def verify_lines(lines: Iterable[bytes]) -> ChainHead:
    """Verify the lines of a log; return its head; errors as `verify_log`."""
    head = ChainHead(0, GENESIS)
    for number, entry in _entries(lines):
        if entry["prev_entry_hash"] != head.entry_hash:
            raise ChainBrokenError(
                f"line {number}: expected prev_entry_hash {head.entry_hash}, "
                f"got {entry['prev_entry_hash']}",
                line=number,
            )
        head = ChainHead(number, entry["entry_hash"])
    return head


def _entries(lines: Iterable[bytes]) -> Iterator[tuple[int, Document]]:
    """Yield number and entry of each line that is, by itself, a whole and unchanged entry."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(_LF):
            raise ChainBrokenError(f"line {number}: expected a line feed, got none", line=number)
        try:
            entry: Document = parse_object(line[:-1], max_bytes=MAX_LINE_BYTES)
        except ParseError as error:
            raise ChainBrokenError(f"line {number}: {error}", line=number) from error
        found = violations("audit_entry", entry)
        if found:
            detail = f"{found[0].pointer or 'the entry'}: {found[0].detail}"
            raise ChainBrokenError(f"line {number}: {detail}", line=number)
        if canonical_bytes(entry) + _LF != line:
            raise ChainBrokenError(f"line {number}: expected canonical JSON", line=number)
        digest = hash_json({key: item for key, item in entry.items() if key != "entry_hash"})
        if digest != entry["entry_hash"]:
            raise ChainBrokenError(
                f"line {number}: expected entry_hash {digest}, got {entry['entry_hash']}",
                line=number,
            )
        yield number, entry
