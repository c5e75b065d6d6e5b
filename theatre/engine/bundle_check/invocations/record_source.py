"""The invocation records of a bundle, streamed in order from either layout.

Source: docs/evidence.md: a file each for a dataset of up to 1,000 episodes, else parts of 1,000
lines. Every record has a position, the episode it must belong to, by where it lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from theatre.engine.bundle_check.reading.documents import canonical_object
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import DefectError
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.canonical_json import JsonObject

PART_SIZE = 1000

_EPISODE = re.compile(r"invocations/episode_(\d{6,})\.json", re.ASCII)
_PART = re.compile(r"invocations/part-(\d{5,})\.jsonl", re.ASCII)
_MAX_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordItem:
    """One record: where it lies, the episode of that place, its bytes, and what they parse to."""

    where: str
    position: int
    raw: bytes
    record: JsonObject | None


def stored_records(folder: BundleFolder, total: int | None, ledger: Ledger) -> Iterator[RecordItem]:
    """Yield every record by ascending position; `total` is the number of episodes, if known.

    Files of the wrong layout, and what cannot be read, go to `invocations`.
    """
    episodes, parts = _numbered(folder, _EPISODE), _numbered(folder, _PART)
    in_parts = bool(parts) if total is None else total > PART_SIZE
    for _, path in episodes if in_parts else parts:
        layout = f"parts of {PART_SIZE} records" if in_parts else "a file for each record"
        ledger.wrong(CheckId.INVOCATIONS, f"{layout} in invocations", f"also {path}")
    for number, path in parts if in_parts else episodes:
        try:
            if in_parts:
                yield from _of_part(folder, number, path, ledger)
            else:
                yield _item(folder.read(path), path, number, ledger)
        except DefectError as defect:
            ledger.wrong(CheckId.INVOCATIONS, defect.expected, defect.actual)


def _numbered(folder: BundleFolder, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the files of one layout by number; only the one spelling of a number counts."""
    found = []
    for path in folder.files:
        match = pattern.fullmatch(path)
        if match is None or len(match[1]) > _MAX_DIGITS:
            continue
        width = 6 if pattern is _EPISODE else 5
        if match[1] == f"{int(match[1]):0{width}d}":
            found.append((int(match[1]), path))
    return sorted(found)


def _of_part(folder: BundleFolder, number: int, path: str, ledger: Ledger) -> Iterator[RecordItem]:
    for line, raw in enumerate(folder.lines(path), start=1):
        if line > PART_SIZE:
            raise DefectError(f"{path} with at most {PART_SIZE} lines", "more")
        position = (number - 1) * PART_SIZE + line
        yield _item(raw, f"{path} line {line}", position, ledger)


def _item(raw: bytes, where: str, position: int, ledger: Ledger) -> RecordItem:
    record: JsonObject | None = None
    try:
        record = canonical_object(raw, where, ledger)
    except DefectError as defect:
        ledger.wrong(CheckId.INVOCATIONS, defect.expected, defect.actual)
    return RecordItem(where=where, position=position, raw=raw, record=record)
