"""What a judge is shown of a change: the list of its files, and its diff in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.paths import at_path
from theatre.verification.change_facts import change_facts
from theatre.verification.judge.chunks import diff_parts

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
    files = change_facts(diff).files
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
            for file in files[:MAX_FILES]
        ],
        "files_omitted": max(0, len(files) - MAX_FILES),
    }
