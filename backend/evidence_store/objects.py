"""Objects of a folder or a bucket by key: one request each, and nothing of hashes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import obstore
from obstore.exceptions import NotFoundError
from obstore.store import LocalStore, S3Store

from backend.evidence_store.failures import wrap_store_errors

_CHUNK_BYTES = 1024 * 1024
_ABSENT = (FileNotFoundError, NotFoundError)


class ListedObject(NamedTuple):
    """An object as a store lists it."""

    key: str
    size_bytes: int
    stored_at: datetime


class ObjectStore:
    """All methods raise EvidenceStoreError where the store does not answer or has no room."""

    def __init__(self, backend: LocalStore | S3Store) -> None:
        self._backend = backend

    def put(self, key: str, content: bytes | Path) -> None:
        """Write an object in one step: no reader sees a part of it. Bytes go in one request."""
        several = None if isinstance(content, Path) else False
        with wrap_store_errors("keep an object"):
            # By default a dozen pieces of a large file would be in memory at a time.
            obstore.put(self._backend, key, content, use_multipart=several, max_concurrency=1)

    def find(self, key: str) -> ListedObject | None:
        """Return an object's size and time; None where there is none."""
        with wrap_store_errors("look for an object"):
            try:
                meta = obstore.head(self._backend, key)
            except _ABSENT:
                return None
        return ListedObject(key, meta["size"], meta["last_modified"])

    def below(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects whose keys begin with `prefix/`, in no order."""
        with wrap_store_errors("list objects"):
            for page in obstore.list(self._backend, f"{prefix}/"):
                for meta in page:
                    yield ListedObject(meta["path"], meta["size"], meta["last_modified"])

    def read(self, key: str) -> Iterator[memoryview] | None:
        """Return an object's bytes in pieces; None where there is none."""
        with wrap_store_errors("read an object"):
            try:
                found = obstore.get(self._backend, key)
            except _ABSENT:
                return None
        return self._pieces(found)

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        with wrap_store_errors("remove an object"), contextlib.suppress(*_ABSENT):
            obstore.delete(self._backend, key)

    def _pieces(self, found: obstore.GetResult) -> Iterator[memoryview]:
        with wrap_store_errors("read an object"):
            for piece in found.stream(min_chunk_size=_CHUNK_BYTES):
                yield memoryview(piece)
