"""The form of a ground-truth record, to validate uploaded and stored ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError
from theatre.verification.errors import NoRecordError
from theatre.verification.records import GroundTruthRecord, Omitted

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
    return GroundTruthRecord(
        id=read.id,
        commit=read.commit,
        title=read.title,
        description=read.description,
        diff_content=read.diff_content,
        files_changed=tuple(read.files_changed),
        timestamp=timestamp,
        labels=tuple(read.labels),
        author=read.author,
        omitted=Omitted(**read.omitted.model_dump()),
    )
