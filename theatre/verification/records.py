"""Ground truth: one change to a repository as a record, and records as canonical lines.

Source: docs/requirements.md R75.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_line
from theatre.engine.clock import format_rfc3339

MAX_DIFF_BYTES = 4 * 1024 * 1024
MAX_PATHS_BYTES = 1024 * 1024
MAX_TEXT_BYTES = 64 * 1024
"""What a record keeps of a diff, of its list of paths, and of title and description each, in
bytes of canonical JSON. Together they fit an episode's line, whatever a repository holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """What a record does not hold of its change; all 0 where it is whole."""

    diff_bytes: int = 0
    files: int = 0
    text_bytes: int = 0


NOTHING_OMITTED = Omitted()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruthRecord:
    """One change: what it says of itself and what it did.

    `commit` is the one that brought it, empty where that is not known. `files_changed` are new
    paths (old ones of deleted files) in the order of the diff. Bytes that are no UTF-8 are
    escaped in every text. `timestamp` is when it was merged or committed. `omitted` is what
    the limits above left out.
    """

    id: str
    commit: str
    title: str
    description: str
    diff_content: str
    files_changed: tuple[str, ...]
    timestamp: datetime
    labels: tuple[str, ...]
    author: str
    omitted: Omitted = NOTHING_OMITTED

    def as_document(self) -> JsonObject:
        """Return the record as JSON."""
        return {
            "id": self.id,
            "commit": self.commit,
            "title": self.title,
            "description": self.description,
            "diff_content": self.diff_content,
            "files_changed": list(self.files_changed),
            "timestamp": format_rfc3339(self.timestamp),
            "labels": list(self.labels),
            "author": self.author,
            "omitted": {
                "diff_bytes": self.omitted.diff_bytes,
                "files": self.omitted.files,
                "text_bytes": self.omitted.text_bytes,
            },
        }


def make_record(
    *,
    id: str,  # noqa: A002  # the name in the record
    commit: str,
    message: str,
    diff: str,
    unread_diff_bytes: int,
    paths: Sequence[str],
    timestamp: datetime,
    labels: Sequence[str],
    author: str,
) -> GroundTruthRecord:
    """Return a record within the limits, with what they left out counted.

    The first line of `message` is the title. `unread_diff_bytes` is what the caller did not read
    of the diff. A diff is cut after a line, a list of paths after a path.
    """
    title, _, description = message.strip().partition("\n")
    kept_title, kept_description = (
        _fit(title, MAX_TEXT_BYTES),
        _fit(description.strip(), MAX_TEXT_BYTES),
    )
    kept_diff = _cut_to_lines(diff, _fit(diff, MAX_DIFF_BYTES))
    kept_paths = _fit_paths(paths)
    return GroundTruthRecord(
        id=id,
        commit=commit,
        title=kept_title,
        description=kept_description,
        diff_content=kept_diff,
        files_changed=kept_paths,
        timestamp=timestamp,
        labels=tuple(labels),
        author=_fit(author, MAX_TEXT_BYTES),
        omitted=Omitted(
            diff_bytes=unread_diff_bytes + _size(diff) - _size(kept_diff),
            files=len(paths) - len(kept_paths),
            text_bytes=_size(title)
            - _size(kept_title)
            + _size(description.strip())
            - _size(kept_description),
        ),
    )


def ground_truth_lines(records: Iterable[GroundTruthRecord]) -> bytes:
    """Return the records as canonical JSONL; its SHA-256 names the ground truth."""
    return b"".join(canonical_line(record.as_document()) for record in records)


def decode(raw: bytes) -> str:
    """Return text as records hold it: UTF-8, other bytes as a backslash, `x` and two digits."""
    return raw.decode("utf-8", "backslashreplace")


def _size(text: str) -> int:
    return len(text.encode())


def _fit(text: str, limit: int) -> str:
    """Return the longest prefix whose canonical JSON is at most `limit` bytes."""
    if _size(text) * 6 <= limit or len(canonical_bytes(text)) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(canonical_bytes(text[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _cut_to_lines(text: str, prefix: str) -> str:
    return prefix if len(prefix) == len(text) else prefix[: prefix.rfind("\n") + 1]


def _fit_paths(paths: Sequence[str]) -> tuple[str, ...]:
    room, kept = MAX_PATHS_BYTES, []
    for path in paths:
        room -= len(canonical_bytes(path)) + 1
        if room < 0:
            break
        kept.append(path)
    return tuple(kept)
