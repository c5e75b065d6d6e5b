"""Follow-up questions: made before the commitment, from the record alone, with their answers.

Which of the questions that fit a record it gets follows from the record's id.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from theatre.engine.canonical_json import JsonObject
from theatre.verification.change_facts import ChangeFacts, definitions
from theatre.verification.records import GroundTruthRecord
from theatre.verification.unified_diff import FileOperation

_MOST_NAMES = 6
"""A question with more names in its answer is not asked: it would measure patience."""

_FILES_ASKED = {
    FileOperation.ADDED: "Which files does this change add? Give their paths.",
    FileOperation.DELETED: "Which files does this change delete? Give their paths.",
    FileOperation.RENAMED: "Which files does this change rename? Give their new paths.",
}
_DEFINITIONS_ASKED = {
    FileOperation.ADDED: "Which functions or types does this change define anew in {path}?",
    FileOperation.DELETED: "Which functions or types does this change take out of {path}?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A question, and what answers it: names, or else a number."""

    question: str
    names: tuple[str, ...] = ()
    number: int | None = None

    def expectation(self) -> JsonObject:
        """Return the answer as the dataset holds it."""
        return {"names": list(self.names)} if self.number is None else {"number": self.number}


def make_follow_up(record: GroundTruthRecord, facts: ChangeFacts) -> FollowUp:
    """Return the question about a record; the number of its files can always be asked for.

    Where a part of the diff was left out, only that.
    """
    fitting = [_how_many_files(record)]
    if record.omitted.diff_bytes == 0 and record.omitted.files == 0:
        fitting = [*_about_files(facts), *_about_definitions(facts), *_about_lines(facts), *fitting]
    draw = int.from_bytes(hashlib.sha256(record.id.encode()).digest()[:8])
    return fitting[draw % len(fitting)]


def _how_many_files(record: GroundTruthRecord) -> FollowUp:
    return FollowUp(
        question="How many files does this change touch? A renamed file counts once.",
        number=len(record.files_changed) + record.omitted.files,
    )


def _about_files(facts: ChangeFacts) -> list[FollowUp]:
    questions = []
    for operation, question in _FILES_ASKED.items():
        paths = tuple(file.path for file in facts.files if file.operation is operation)
        if 1 <= len(paths) <= _MOST_NAMES:
            questions.append(FollowUp(question=question, names=paths))
    return questions


def _about_definitions(facts: ChangeFacts) -> list[FollowUp]:
    questions = []
    for file in facts.files:
        for operation, question in _DEFINITIONS_ASKED.items():
            names = tuple(c.subject for c in definitions(file) if c.operation is operation)
            if 1 <= len(names) <= _MOST_NAMES:
                questions.append(FollowUp(question=question.format(path=file.path), names=names))
    return questions


def _about_lines(facts: ChangeFacts) -> list[FollowUp]:
    return [
        FollowUp(
            question=f"How many lines does this change add to {file.path}?",
            number=len(file.added),
        )
        for file in facts.files[:1]
        if not file.is_binary
    ]
