"""What somebody may do to the lines of a journal: each edit by name, for files and for rows."""

import re
from collections.abc import Callable, Mapping, Sequence

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.replay.recording import read_sequences

OTHER_THEATRE = b"7d1f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a22"


def _record(line: bytes) -> bytes:
    return re.sub(rb'"latency_ms":(\d+)', rb'"latency_ms":1\1', line, count=1)


def _score(line: bytes) -> bytes:
    place = line.rindex(b'"scores":')
    return line[:place] + line[place:].replace(b":1000000000", b":999999999", 1)


def _facts(line: bytes) -> bytes:
    return line.replace(b'"claimed":false', b'"claimed":true', 1)


def _spliced(line: bytes) -> bytes:
    return re.sub(rb'"theatre_id":"[0-9a-f-]*"', b'"theatre_id":"' + OTHER_THEATRE + b'"', line)


Edit = Callable[[Sequence[bytes], int], list[bytes]]
"""Lines and the index of one of them → the lines as they are afterwards."""


def _one(change: Callable[[bytes], bytes]) -> Edit:
    def edit(lines: Sequence[bytes], index: int) -> list[bytes]:
        changed = change(lines[index])
        assert changed != lines[index], "expected an edit, got the line as it was"
        return [*lines[:index], changed, *lines[index + 1 :]]

    return edit


EDITS: Mapping[str, Edit] = {
    "edited record": _one(_record),
    "edited cached score": _one(_score),
    "edited cached facts": _one(_facts),
    "a line that is none": _one(lambda _: b"{}\n"),
    "spliced from another theatre": _one(_spliced),
    "missing": lambda lines, n: [*lines[:n], *lines[n + 1 :]],
    "reordered": lambda lines, n: [*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]],
    "another one twice": lambda lines, n: [*lines[:n], lines[n + 1], *lines[n + 1 :]],
}


def batch_of(trail: Sequence[JsonObject], seq: int) -> str:
    """Return how messages name the batch of an episode."""
    for entry in trail:
        for one in read_sequences(entry):
            if seq in one:
                where = f"the batch of episodes {one.start} to {one.stop - 1}"
                return f"{where} (audit entry {entry['seq']})"
    raise LookupError(f"expected a batch with episode {seq}, got none")


def entries_of(lines: bytes) -> list[JsonObject]:
    """Return the audit entries of whole lines."""
    return [parse_object(line) for line in lines.splitlines()]
