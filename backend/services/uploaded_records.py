"""Ground-truth records that a user uploaded: theirs to write, so every line is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theatre.engine.canonical_json import MAX_INPUT_DEPTH, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError, DatasetError, ParseError
from theatre.files.datasets import DatasetFile
from theatre.verification.records import GroundTruthRecord

MAX_RECORDS = 1000
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
    commit: str
    title: str
    description: str
    diff_content: str
    files_changed: list[str]
    timestamp: str
    labels: list[str]
    author: str
    omitted: _Omitted


def uploaded_records(dataset: DatasetFile) -> Iterator[GroundTruthRecord]:
    """Yield the records of an upload. Blocks.

    DatasetError for a line that is none, which is never repeated, and for too many of them.
    """
    for number, line in enumerate(dataset.lines(), 1):
        if number > MAX_RECORDS:
            raise DatasetError(f"expected at most {MAX_RECORDS} records, got more")
        yield _record(number, line)


def _record(number: int, line: bytes) -> GroundTruthRecord:
    try:
        document = parse_object(line, max_depth=MAX_INPUT_DEPTH)
        parse_rfc3339(_Record.model_validate(document).timestamp)
    except (ParseError, ValidationError, ClockError):
        raise DatasetError(
            f"line {number}: expected a ground-truth record as `echelon ingest` writes them, got "
            "something else"
        ) from None
    return GroundTruthRecord.from_document(document)
