"""What a judge of summaries is shown of a change, by which rubric, and which answers fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.judging import messages
from theatre.verification.change_facts import change_facts

# The prompts, as files in this folder; their digest is the version of the methodology.


PARSER = "1"
"""The version of what is asked besides the rubric, and of how answers are read and counted."""

_NAMES = ("claims", "changes", "coverage", "reply")

RUBRICS: Final = MappingProxyType(
    {
        name: files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
        for name in _NAMES
    }
)
"""Name → text of each prompt: the system prompt of its requests."""

PROMPTS_SHA256: Final = canonical_sha256(dict(RUBRICS))
VERSION: Final = f"{PARSER}-{PROMPTS_SHA256[:12]}"
"""The version of the scorer: with other prompts, or another reading, it is another one."""

METHODOLOGY: Final = f"judge-{VERSION}"


def _object(**properties: JsonValue) -> JsonObject:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _array(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _one_of(values: Sequence[str]) -> JsonObject:
    return {"type": "string", "enum": list(values)}


CLAIM_VERDICTS = ("supported", "contradicted", "not_shown")
REPLY_VERDICTS = ("right", "partly", "wrong")

ANSWER_SCHEMAS: Final[dict[str, JsonObject]] = {
    "claims": _object(
        verdicts=_array(_object(claim={"type": "integer"}, verdict=_one_of(CLAIM_VERDICTS)))
    ),
    "changes": _object(changes=_array({"type": "string"})),
    "coverage": _object(
        verdicts=_array(_object(change={"type": "integer"}, surfaced={"type": "boolean"}))
    ),
    "reply": _object(verdict=_one_of(REPLY_VERDICTS)),
}
"""Name of a prompt → JSON Schema of its answers; the API gets it, and answers are checked by it."""


def request(prompt: str, judge: JsonObject, data: JsonObject) -> JsonObject:
    """Return the request that asks about `data` by the rubric `prompt`; `judge` is committed."""
    return messages.request(RUBRICS[prompt], ANSWER_SCHEMAS[prompt], judge, data)


def read_answer(prompt: str, answer: JsonObject) -> JsonObject | None:
    """Return what a judge answered to `prompt`, or None where that is not usable."""
    return messages.read_answer(ANSWER_SCHEMAS[prompt], answer)


# A unified diff in parts that a model can be shown: by file, then by hunk, then by line.


MAX_CHARACTERS = 40_000
MAX_PARTS = 6
"""The most that one part holds, in characters, and how many parts are shown at most."""

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DiffParts:
    """The parts of a diff in order, and how many of its characters none of them holds."""

    parts: tuple[str, ...]
    omitted: int


def diff_parts(diff: str, *, characters: int, parts: int) -> DiffParts:
    """Return at most `parts` parts of at most `characters` characters each, one at least.

    Files stay whole where they fit a part, else hunks, else lines; the heading of a file that is
    cut is repeated before each of its pieces. Neighbours share a part where they fit into one. The
    rest of a line that is longer than a part is left out, and so is what comes after the last
    part.
    """
    packed = list(_pack(_pieces(diff, characters), characters))
    shown = packed[:parts]
    held = sum(part.characters for part in shown)
    return DiffParts(tuple(part.text for part in shown) or ("",), len(diff) - held)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text to show, and how many characters of the diff it covers: headings repeat."""

    text: str
    characters: int


def _pieces(diff: str, limit: int) -> Iterator[_Piece]:
    for file in filter(None, _FILE.split(diff)):
        if len(file) <= limit:
            yield _Piece(file, len(file))
            continue
        heading, *hunks = _HUNK.split(file)
        # A heading that takes more than a quarter of a part is shown once, cut.
        repeated = heading if len(heading) <= limit // 4 else ""
        if not repeated or not hunks:
            yield from _by_line(heading, "", limit)
            heading = ""
        for number, hunk in enumerate(hunks):
            counted = len(heading) if number == 0 else 0
            yield from _of_hunk(hunk, repeated, limit, counted)


def _of_hunk(hunk: str, heading: str, limit: int, counted: int) -> Iterator[_Piece]:
    if len(heading) + len(hunk) <= limit:
        yield _Piece(heading + hunk, counted + len(hunk))
        return
    for piece in _by_line(hunk, heading, limit):
        yield _Piece(piece.text, piece.characters + counted)
        counted = 0


def _by_line(text: str, heading: str, limit: int) -> Iterator[_Piece]:
    room = limit - len(heading)
    held = ""
    for line in text.splitlines(keepends=True):
        cut = line[:room]
        if held and len(held) + len(cut) > room:
            yield _Piece(heading + held, len(held))
            held = ""
        held += cut
    if held:
        yield _Piece(heading + held, len(held))


def _pack(pieces: Iterable[_Piece], limit: int) -> Iterator[_Piece]:
    text, characters = "", 0
    for piece in pieces:
        if text and len(text) + len(piece.text) > limit:
            yield _Piece(text, characters)
            text, characters = "", 0
        text, characters = text + piece.text, characters + piece.characters
    if text:
        yield _Piece(text, characters)


MAX_FILES = 100
_TEXT_CHARACTERS, _PATH_CHARACTERS = 4_000, 200
"""How much of title and description each, and of a path, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change as a judge is shown it; `author_said` are its title and description."""

    author_said: JsonObject
    files: JsonObject
    parts: tuple[str, ...]
    omitted: int

    def in_parts(self) -> Iterator[JsonObject]:
        """Yield the files with one part of the diff after the other."""
        for number, part in enumerate(self.parts, start=1):
            yield {
                **self.files,
                "diff": part,
                "part": number,
                "parts": len(self.parts),
                "characters_omitted": self.omitted,
            }


def read_change(case: ScoringCase) -> Change | None:
    """Return the change of an episode by the criterion's `record`; None where it is no record."""
    record = at_path(case.input_data, cast("str", case.params["record"]))
    if not isinstance(record, dict) or not isinstance(record.get("diff_content"), str):
        return None
    diff = cast("str", record["diff_content"])
    judge = cast("JsonObject", case.params["judge"])
    divided = diff_parts(
        diff,
        characters=int(cast("float", judge["part_characters"])),
        parts=int(cast("float", judge["parts"])),
    )
    said = {name: record.get(name) for name in ("title", "description")}
    return Change(
        author_said={
            name: text[:_TEXT_CHARACTERS] if isinstance(text, str) else ""
            for name, text in said.items()
        },
        files=_files(diff),
        parts=divided.parts,
        omitted=divided.omitted,
    )


def _files(diff: str) -> JsonObject:
    changed = change_facts(diff).files
    return {
        "files": [
            {
                "path": file.path[:_PATH_CHARACTERS],
                **(
                    {"old_path": file.old_path[:_PATH_CHARACTERS]}
                    if file.old_path != file.path
                    else {}
                ),
                "operation": file.operation.value,
                "added": len(file.added),
                "removed": len(file.removed),
            }
            for file in changed[:MAX_FILES]
        ],
        "files_omitted": max(0, len(changed) - MAX_FILES),
    }
