"""Objects of a folder or a bucket by key: one request each, and nothing of hashes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import obstore
from obstore.exceptions import NotFoundError
from obstore.store import LocalStore, S3Store

from backend.evidence_store.names import ObjectKind, wrap_disk_errors, wrap_store_errors

# Files on the local disk: drafts, copies of objects, unpacked bundles.


PROBE = bytes(64 * 1024)
"""The bytes that a disk must have room for, to count as writable."""


class LocalDisk:
    """One folder of temporary files; each is needed only while its writer works with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def unpacked(self) -> Path:
        """The folder of bundles that were unpacked to hand out single files."""
        return self._folder / "unpacked"

    def copy_of(self, kind: ObjectKind, name: str) -> Path:
        """Return where the copy of an object is, if there is one."""
        return self._folder / kind / name

    @contextlib.contextmanager
    def draft(self) -> Iterator[Path]:
        """Yield a path for a new file, removed afterwards; EvidenceStoreError if the disk fails."""
        drafts = self._folder / "drafts"
        with wrap_disk_errors("make a draft"):
            drafts.mkdir(parents=True, exist_ok=True)
        path = drafts / str(uuid4())
        try:
            with wrap_disk_errors("write a draft"):
                yield path
        finally:
            path.unlink(missing_ok=True)

    def probe(self) -> None:
        """Return where there is room for a draft; EvidenceStoreError otherwise."""
        with self.draft() as path:
            path.write_bytes(PROBE)

    def forget(self, *, before: datetime) -> int:
        """Remove files that were last written before; return how many."""
        removed = 0
        for folder in ("drafts", "unpacked", *ObjectKind):
            for path in (self._folder / folder).glob("*"):
                # Another process may clean up at the same time.
                with contextlib.suppress(FileNotFoundError):
                    removed += _removed(path, before)
        return removed


def _removed(path: Path, before: datetime) -> bool:
    if path.stat().st_mtime > before.timestamp():
        return False
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
    return True


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
