"""Every change of a bundle that the mutation test tries: of bytes, lines, members and values."""

import hashlib
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tests.theatre.consequences import told_anew
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    parse_or_none,
    resealed,
    with_certified_hash,
    with_manifest,
)
from theatre.engine.canonical_json import JsonValue, canonical_line

LATE = frozenset({"manifest.json", "SHA256SUMS"})
"""Files that a forger makes anew: a mutant of one is changed after that, not before."""

OTHER_WORDS = {
    "UNVERIFIED": "PROVEN",
    "success": "refused",
    "error": "timeout",
    "refused": "success",
    "timeout": "error",
    "computed": "claimed",
    "scored": "unscored",
    "missing": "excluded",
    "excluded": "missing",
    "local@1": "http@1",
    "completed": "failed",
    "filed": "resolved",
    "wilson": "bca",
    "undefined": "wilson",
    "replay": "market",
    "CUSTOM": "CI_CD",
    "exact_match": "field_match",
    "version-mismatch": "timeout",
    "output-spec": "crashed",
    "unsendable-input": "crashed",
    "not_run": "missing",
    "break": "flag",
    "episodes": "truth",
    "continue": "settle",
    "failed": "completed",
    "skipped": "completed",
    "mixed_clt": "clt",
    "hitl_rubric": "aggregation",
    "hitl-timeout": "output-spec",
    "not-rated": "no-variation",
    "Grace": "Edsger",
    "Edsger": "grace",
    "score-off-scale": "not-an-item",
}
"""A word of a closed list → another word of that list."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*Z")
_HEX = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change. `place` is where, with the numbers of items, lines and records left out."""

    file: str
    place: str
    kind: str
    edit: Callable[[Files], Files]

    @property
    def name(self) -> str:
        return f"{self.kind} at {self.place} ({self.file})"

    def forged(self, files: Files, effort: Effort) -> Files:
        """Return the bundle that a forger makes of this change with `effort`."""
        forged = self.edit(files)
        if self.file not in LATE:
            if effort is Effort.CHAIN:
                forged = told_anew(forged, group_of(self.file))
            return resealed(forged, effort)
        if self.file == "SHA256SUMS" and self.file in forged and effort > Effort.ALONE:
            certified = effort >= Effort.CERTIFIED_HASH
            return with_manifest(with_certified_hash(forged) if certified else forged)
        return forged


def group_of(file: str) -> str:
    """Return the name that a file shares with its likes."""
    folder, _, name = file.partition("/")
    return f"{folder}/*" if name and folder in {"invocations", "hitl"} else file


def mutants(files: Files) -> Iterator[Mutant]:
    """Yield every mutant of a bundle."""
    for file in sorted(files):
        yield from _of_bytes(file, files[file])
        if file.startswith("ground_truth/") or file == "SHA256SUMS":
            continue
        raw_lines = files[file].splitlines(keepends=True)
        for number, raw in enumerate(raw_lines):
            value = parse_or_none(raw)
            for place, kind, edited in _of_value(value, _root(file, value)):
                yield Mutant(file=file, place=place, kind=kind, edit=_line(file, number, edited))


def _root(file: str, value: JsonValue) -> str:
    """Return the place of a document: audit entries by their event, other lines alike."""
    if file == "audit_trail.jsonl" and isinstance(value, dict):
        return f"{file}/{value['event_type']}"
    return group_of(file)


def _line(file: str, number: int, value: JsonValue) -> Callable[[Files], Files]:
    def edit(files: Files) -> Files:
        raw_lines = files[file].splitlines(keepends=True)
        raw_lines[number] = canonical_line(value)
        return files | {file: b"".join(raw_lines)}

    return edit


def _of_bytes(file: str, raw: bytes) -> Iterator[Mutant]:
    def mutant(kind: str, edit: Callable[[Files], Files]) -> Mutant:
        return Mutant(file=file, place=group_of(file), kind=kind, edit=edit)

    def becomes(new: bytes) -> Callable[[Files], Files]:
        return lambda files: files | {file: new}

    raw_lines = raw.splitlines(keepends=True)
    for kind, position in (("first", 0), ("middle", len(raw) // 2), ("last", len(raw) - 1)):
        flipped = raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :]
        yield mutant(f"flip of the {kind} byte", becomes(flipped))
    yield mutant("half a file", becomes(raw[: len(raw) // 2]))
    yield mutant("no last byte", becomes(raw[:-1]))
    yield mutant("an empty file", becomes(b""))
    yield mutant("an empty line more", becomes(raw + b"\n"))
    yield mutant("the last line twice", becomes(raw + raw_lines[-1]))
    yield mutant("no file", lambda files: {n: data for n, data in files.items() if n != file})
    for kind, copied in _names_of_copies(file):
        yield mutant(kind, lambda files, copied=copied: files | {copied: files[file]})  # type: ignore[misc]
    if len(raw_lines) > 1:
        yield mutant("lines reversed", becomes(b"".join(reversed(raw_lines))))
        yield mutant("no first line", becomes(b"".join(raw_lines[1:])))
        exchanged = [raw_lines[1], raw_lines[0], *raw_lines[2:]]
        yield mutant("two lines exchanged", becomes(b"".join(exchanged)))


def _names_of_copies(file: str) -> Iterator[tuple[str, str]]:
    path = PurePosixPath(file)
    yield "a copy", str(path.with_name(f"{path.stem}-copy{path.suffix}"))
    if file.startswith("invocations/"):
        yield "a copy as another record", "invocations/episode_000099.json"
    if file.startswith("hitl/"):
        yield "a copy as another step's", "hitl/never.jsonl"


def _of_value(value: JsonValue, place: str) -> Iterator[tuple[str, str, Any]]:
    """Yield place, kind and the whole changed value for `value` and everything below it."""
    yield from ((place, kind, new) for kind, new in _replacements(value))
    if isinstance(value, dict):
        yield place, "a member more", value | {"remark": "one more"}
        for key, item in value.items():
            below = f"{place}/{key}"
            yield below, "a member less", {k: v for k, v in value.items() if k != key}
            for where, kind, new in _of_value(item, below):
                yield where, kind, value | {key: new}
    if isinstance(value, list) and value:
        yield f"{place}/*", "an item less", value[:-1]
        yield f"{place}/*", "an item more", [*value, deepcopy(value[-1])]
        if value != value[::-1]:
            yield f"{place}/*", "items reversed", value[::-1]
        for index, item in enumerate(value):
            for where, kind, new in _of_value(item, f"{place}/*"):
                yield where, kind, [*value[:index], new, *value[index + 1 :]]


def _replacements(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, str):
        yield "another text", f"{value}x"
        yield "a number for a text", 1
        yield from _like(value)
    elif isinstance(value, bool):
        yield "the other truth", not value
        yield "a number for a truth", int(value)
    elif isinstance(value, (int, float)):
        yield "another number", value + 1 if isinstance(value, int) else value / 2 + 0.0625
        yield "a text for a number", str(value)
        yield "a truth for a number", bool(value)
    elif value is None:
        yield "a number for null", 0
        yield "a text for null", ""
    else:
        yield "null for a container", None
        if not value:
            yield "something for nothing", ["x"] if isinstance(value, list) else {"x": 1}


def _like(text: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield another value of the same form."""
    if text in OTHER_WORDS:
        yield "another word", OTHER_WORDS[text]
    if _UUID.fullmatch(text):
        yield "another UUID", "00000000-0000-4000-8000-000000000001"
    elif _TIME.fullmatch(text):
        year = 2025 if text.startswith("2026") else 2026
        yield "an earlier time", f"{year}{text[4:]}"
        yield "a later time", f"{year + 8}{text[4:]}"
    elif _HEX.fullmatch(text):
        yield "another hash", hashlib.sha256(text.encode()).hexdigest()[: len(text)]
