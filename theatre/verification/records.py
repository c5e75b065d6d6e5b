"""Ground truth: one change to a repository as a record, and records as canonical lines.

Source: docs/requirements.md R75.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_line
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ClockError
from theatre.verification.change_facts import (
    ChangeFacts,
    change_facts,
    definitions,
    important_changes,
)
from theatre.verification.errors import NoRecordError
from theatre.verification.unified_diff import FileOperation

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
        return asdict(self) | {
            "files_changed": list(self.files_changed),
            "timestamp": format_rfc3339(self.timestamp),
            "labels": list(self.labels),
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
    title, _, rest = message.strip().partition("\n")
    description = rest.strip()
    kept_title, kept_description = _fit(title, MAX_TEXT_BYTES), _fit(description, MAX_TEXT_BYTES)
    kept_diff = _fit(diff, MAX_DIFF_BYTES)
    if len(kept_diff) < len(diff):
        kept_diff = kept_diff[: kept_diff.rfind("\n") + 1]
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
            text_bytes=_size(title + description) - _size(kept_title + kept_description),
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


def _fit_paths(paths: Sequence[str]) -> tuple[str, ...]:
    room, kept = MAX_PATHS_BYTES, []
    for path in paths:
        room -= len(canonical_bytes(path)) + 1
        if room < 0:
            break
        kept.append(path)
    return tuple(kept)


# Follow-up questions: made before the commitment, from the record alone, with their answers.
#
# Which of the questions that fit a record it gets follows from the record's id.


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
    files = FollowUp(
        question="How many files does this change touch? A renamed file counts once.",
        number=len(record.files_changed) + record.omitted.files,
    )
    fitting = [files]
    if record.omitted.diff_bytes == 0 and record.omitted.files == 0:
        fitting = [*_about_files(facts), *_about_definitions(facts), *_about_lines(facts), *fitting]
    draw = int.from_bytes(hashlib.sha256(record.id.encode()).digest()[:8])
    return fitting[draw % len(fitting)]


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
            question=f"How many lines does this change add to {file.path}?", number=len(file.added)
        )
        for file in facts.files[:1]
        if not file.is_binary
    ]


# From ground-truth records to the dataset that a run is committed to.


def make_episode(record: GroundTruthRecord) -> JsonObject:
    """Return a record as an episode: what the oracle is shown, and what is expected of it.

    A change without anything in it has no `important_changes`: recall does not apply there.
    """
    facts = change_facts(record.diff_content)
    asked = make_follow_up(record, facts)
    expected: JsonObject = {"follow_up": asked.expectation()}
    changes = important_changes(facts)
    if changes:
        expected["important_changes"] = [
            {"operation": c.operation.value, "subject": c.subject, "path": c.path} for c in changes
        ]
    return {
        "episode_id": record.id,
        "input_data": {"record": record.as_document(), "follow_up_question": asked.question},
        "expected_output": expected,
    }


def dataset_lines(records: Iterable[GroundTruthRecord]) -> bytes:
    """Return the dataset as canonical JSONL."""
    return b"".join(canonical_line(make_episode(record)) for record in records)


# The form of a ground-truth record, to validate uploaded and stored ones.


_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _Omitted(_Strict):
    diff_bytes: _Count
    files: _Count
    text_bytes: _Count


class _Record(_Strict):
    """The shape that `GroundTruthRecord.as_document` writes."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    # It is shown in the certificate: it must be the name of a commit, not free text.
    commit: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})?$")]
    title: str
    description: str
    diff_content: str
    files_changed: list[str]
    timestamp: str
    labels: list[str]
    author: str
    omitted: _Omitted


def read_record(document: JsonObject) -> GroundTruthRecord:
    """Return the record that `as_document` wrote.

    Raises NoRecordError for what has another form; nothing of it is repeated.
    """
    try:
        read = _Record.model_validate(document)
        timestamp = parse_rfc3339(read.timestamp)
    except (ValidationError, ClockError):
        raise NoRecordError(
            "expected a ground-truth record as `echelon ingest` writes them, got something else"
        ) from None
    typed = {
        "files_changed": tuple(read.files_changed),
        "timestamp": timestamp,
        "labels": tuple(read.labels),
        "omitted": Omitted(**dict(read.omitted)),
    }
    return GroundTruthRecord(**(dict(read) | typed))
