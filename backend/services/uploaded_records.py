"""Ground-truth records that a user uploaded: theirs to write, so every line is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from theatre.engine.canonical_json import MAX_INPUT_DEPTH, parse_object
from theatre.engine.errors import DatasetError, ParseError
from theatre.files.datasets import DatasetFile
from theatre.verification.errors import NoRecordError
from theatre.verification.record_form import read_record
from theatre.verification.records import GroundTruthRecord

MAX_RECORDS = 1000


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
        return read_record(parse_object(line, max_depth=MAX_INPUT_DEPTH))
    except (ParseError, NoRecordError):
        raise DatasetError(
            f"line {number}: expected a ground-truth record as `echelon ingest` writes them, got "
            "something else"
        ) from None
