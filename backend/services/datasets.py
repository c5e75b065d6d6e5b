"""Uploads of ground truth: streamed to the store under their hash, and owned by who sent them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.evidence_store import ObjectKind
from backend.repositories.theatres import StoredDataset, find_upload, insert_upload
from backend.services.resources import TheatreResources
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, parse_object
from theatre.engine.clock import Clock
from theatre.engine.errors import DatasetError, NotFoundError, ParseError
from theatre.files.datasets import DatasetFile
from theatre.verification.errors import NoRecordError
from theatre.verification.records import GroundTruthRecord, read_record

_MAX_LINES = 1_000_000
"""Empty objects in 64 MiB would keep a thread busy for minutes."""


async def take_upload(
    engine: AsyncEngine, chunks: AsyncIterator[bytes], *, user_id: str, resources: TheatreResources
) -> StoredDataset:
    """Store a dataset and return what is known of it; the same bytes again change nothing.

    DatasetError for anything but lines of strict JSON objects. What they mean is looked at when a
    theatre is committed to them.
    """
    with resources.store.draft() as draft:
        with draft.open("wb") as target:
            dataset = await _received(chunks, target, resources.clock)
        await asyncio.to_thread(_require_lines, draft, dataset.lines_total)
        await asyncio.to_thread(resources.store.put, ObjectKind.DATASETS, draft)
    async with engine.begin() as connection:
        await insert_upload(connection, dataset, user_id=user_id)
        return await read_upload(connection, dataset.sha256, user_id=user_id)


async def read_upload(connection: AsyncConnection, sha256: str, *, user_id: str) -> StoredDataset:
    """Return an upload of a user; NotFoundError where it is not theirs."""
    dataset = await find_upload(connection, sha256, user_id=user_id)
    if dataset is None:
        raise NotFoundError(f"expected an upload of this user, got {sha256}")
    return dataset


async def _received(chunks: AsyncIterator[bytes], target: BinaryIO, clock: Clock) -> StoredDataset:
    hasher = hashlib.sha256()
    size = lines = 0
    last = b""
    async for chunk in chunks:
        if not chunk:
            continue
        hasher.update(chunk)
        size, lines, last = size + len(chunk), lines + chunk.count(b"\n"), chunk[-1:]
        await asyncio.to_thread(target.write, chunk)
    lines += last not in (b"", b"\n")
    return StoredDataset(hasher.hexdigest(), size, lines, created_at=clock())


def _require_lines(draft: Path, count: int) -> None:
    if not 0 < count <= _MAX_LINES:
        raise DatasetError(f"expected 1 to {_MAX_LINES} lines of JSON, got {count}")
    dataset = DatasetFile(draft)
    try:
        for number, line in enumerate(dataset.lines(), 1):
            _require_object(number, line)
    finally:
        dataset.close()


def _require_object(number: int, line: bytes) -> None:
    try:
        parse_object(line, max_depth=MAX_INPUT_DEPTH)
    except ParseError as error:
        # The parser's own message may quote the line.
        raise DatasetError(
            f"line {number}: expected a strict JSON object, got something else ({error.reason})"
        ) from None


# Ground-truth records that a user uploaded: theirs to write, so every line is looked at.


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
