"""Uploads of ground truth: streamed to the store under their hash, and owned by who sent them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.repositories.datasets import StoredDataset, note_upload, upload_of
from backend.services.resources import TheatreResources
from theatre.engine.errors import DatasetError, NotFoundError
from theatre.files.durable import sync_folder


class _Received(NamedTuple):
    sha256: str
    size_bytes: int
    lines_total: int


async def take_upload(
    engine: AsyncEngine,
    chunks: AsyncIterator[bytes],
    *,
    user_id: str,
    resources: TheatreResources,
) -> StoredDataset:
    """Store a dataset and return what is known of it; the same bytes again change nothing.

    DatasetError for an empty one. What it holds is looked at when a theatre is committed to it.
    """
    folder = resources.data.place_of_upload("0" * 64).parent
    draft = folder / f".{uuid4()}.partial"
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    try:
        with draft.open("wb") as target:
            received = await _received(chunks, target)
        if not received.size_bytes:
            raise DatasetError("expected lines of JSON, got nothing")
        place = resources.data.place_of_upload(received.sha256)
        await asyncio.to_thread(_keep, draft, place)
    finally:
        draft.unlink(missing_ok=True)
    dataset = StoredDataset(*received, created_at=resources.clock())
    async with engine.begin() as connection:
        await note_upload(connection, dataset, user_id=user_id)
        return await own_upload(connection, received.sha256, user_id=user_id)


async def own_upload(connection: AsyncConnection, sha256: str, *, user_id: str) -> StoredDataset:
    """Return an upload of a user; NotFoundError where it is not theirs."""
    dataset = await upload_of(connection, sha256, user_id=user_id)
    if dataset is None:
        raise NotFoundError(f"expected an upload of this user, got {sha256}")
    return dataset


async def _received(chunks: AsyncIterator[bytes], target: BinaryIO) -> _Received:
    hasher = hashlib.sha256()
    size = lines = 0
    last = b""
    async for chunk in chunks:
        if not chunk:
            continue
        hasher.update(chunk)
        size, lines, last = size + len(chunk), lines + chunk.count(b"\n"), chunk[-1:]
        await asyncio.to_thread(target.write, chunk)
    await asyncio.to_thread(_sync, target)
    return _Received(hasher.hexdigest(), size, lines + (last not in (b"", b"\n")))


def _sync(target: BinaryIO) -> None:
    target.flush()
    os.fsync(target.fileno())


def _keep(draft: Path, place: Path) -> None:
    draft.replace(place)
    sync_folder(place.parent)
