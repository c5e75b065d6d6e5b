"""What a judge of summaries is shown of a change, by which rubric, and which answers fit."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.judging.rubrics import MAX_TOKENS, Limit, Rubrics, array_of, object_of, one_of
from theatre.verification.change_facts import change_facts

MAX_CHARACTERS = 40_000
MAX_PARTS = 6
"""The most that one part of a diff holds, in characters, and how many are shown at most."""

MAX_REPEATS = 5
"""So that all exchanges about an answer fit its record, whatever a judge writes
(docs/design/families.md, "What a judge is asked")."""

CLAIM_VERDICTS = ("supported", "contradicted", "not_shown")
REPLY_VERDICTS = ("right", "partly", "wrong")

RUBRICS: Final = Rubrics(
    package=__package__,
    schemas={
        "claims": object_of(
            verdicts=array_of(object_of(claim={"type": "integer"}, verdict=one_of(CLAIM_VERDICTS)))
        ),
        "changes": object_of(changes=array_of({"type": "string"})),
        "coverage": object_of(
            verdicts=array_of(object_of(change={"type": "integer"}, surfaced={"type": "boolean"}))
        ),
        "reply": object_of(verdict=one_of(REPLY_VERDICTS)),
    },
    parser="3",
    limits={
        "max_tokens": Limit(MAX_TOKENS, 1, MAX_TOKENS),
        "repeats": Limit(1, 1, MAX_REPEATS),
        "part_characters": Limit(MAX_CHARACTERS, 1_000, MAX_CHARACTERS),
        "parts": Limit(MAX_PARTS, 1, MAX_PARTS),
    },
)

METHODOLOGY: Final = f"judge-{RUBRICS.version}"


# A unified diff in parts that a model can be shown: by file, then by hunk, then by line.


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
_PATH_CHARACTERS = 200
"""How much of a path, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change as a judge is shown it, and its whole diff."""

    diff: str
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
    return change_of(cast("str", record["diff_content"]), cast("JsonObject", case.params["judge"]))


def change_of(diff: str, judge: JsonObject) -> Change:
    """Return a change as the committed judge is shown it."""
    divided = diff_parts(
        diff,
        characters=int(cast("float", judge["part_characters"])),
        parts=int(cast("float", judge["parts"])),
    )
    return Change(diff=diff, files=_files(diff), parts=divided.parts, omitted=divided.omitted)


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
