"""The evidence store: objects are stored by hash, and verified when read."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from obstore.store import LocalStore

from backend.errors import EvidenceDamagedError, EvidenceStoreError
from backend.evidence_store.names import (
    ObjectKind,
    StoredObject,
    bucket_of,
    folder_of,
    key_of,
    require_found,
    require_sha256,
    sha256_at,
    wrap_disk_errors,
    wrap_store_errors,
)
from backend.evidence_store.objects import PROBE, LocalDisk, ObjectStore
from backend.evidence_store.parts import INDEX, PART_BYTES, MultipartObjects


class Sink(Protocol):
    """Takes bytes: a file that is open for writing, or a counter."""

    def write(self, piece: memoryview, /) -> object:
        """Take the next bytes."""


class EvidenceStore:
    """One store. Everything here blocks: call it in a thread.

    EvidenceStoreError where the store does not answer or takes nothing (its disk is full);
    EvidenceDamagedError where an object is not there or has other bytes.
    """

    def __init__(self, url: str | None, home: Path) -> None:
        """Open the store at `url` (`file://` or `s3://`); without one, the folder `home`.

        In `home` are local copies and drafts, too. Nothing is asked of a bucket yet.
        """
        self._url = url
        self._local = LocalDisk(home / "cache")
        self.folder = folder_of(url, home)
        """Where the objects are; None for a bucket."""
        if self.folder is None:
            self._objects = ObjectStore(bucket_of(url or ""))
        else:
            with wrap_store_errors("open the folder"):
                self._objects = ObjectStore(LocalStore(self.folder, mkdir=True))
        self._parts = MultipartObjects(self._objects)

    def draft(self) -> AbstractContextManager[Path]:
        """Give a new path on the local disk for what is to be kept; the file is removed after.

        What the disk refuses meanwhile is raised as EvidenceStoreError.
        """
        return self._local.draft()

    def put(self, kind: ObjectKind, source: Path) -> StoredObject:
        """Make the bytes of a file durable under their hash; the same bytes again change nothing.

        What an earlier attempt has brought there is not sent again, be it the object or parts.
        """
        with wrap_disk_errors("read what is to be kept"), source.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            size = source.stat().st_size
        there = self.find(kind, sha256)
        if there is not None and there.size_bytes == size:
            return there
        self._send(kind, sha256, source, size)
        return self._must_find(kind, sha256)

    def fetch(self, kind: ObjectKind, sha256: str) -> Path:
        """Return a local file with the verified bytes of an object.

        A file is hashed once for as long as the process runs and the file is not written to.
        """
        name = require_sha256(sha256)
        if self.folder is not None:
            place = self.folder / kind / name
        else:
            place = self._local.copy_of(kind, name)
            if sha256_at(place) != sha256:
                self._fetch(kind, sha256, place)
        require_found(kind, sha256, sha256_at(place))
        return place

    def verify(self, kind: ObjectKind, sha256: str, sink: Sink | None = None) -> None:
        """Read an object's bytes from the store itself, not from a local copy; errors as above.

        A sink takes them as they arrive: its result is valid only where nothing is raised.
        """
        self._receive(kind, sha256, sink)

    def copy_out(self, kind: ObjectKind, sha256: str, target: Path) -> None:
        """Write an object's verified bytes durably to a path outside of the store; errors as above.

        No file is left where the bytes do not have the hash.
        """
        with wrap_disk_errors("copy an object"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("wb") as handle:
                    self._receive(kind, sha256, handle)
                    handle.flush()
                    os.fsync(handle.fileno())
            except EvidenceDamagedError:
                target.unlink()
                raise

    def find(self, kind: ObjectKind, name: str) -> StoredObject | None:
        """Return what the store says of an object; None where there is none, or not all of it."""
        key = f"{kind}/{name}"
        found = self._objects.find(key)
        if found is None and self.folder is None:
            found = self._parts.find(key)
        return None if found is None else StoredObject(name, found.size_bytes, found.stored_at)

    def list_objects(self, kind: ObjectKind) -> Iterator[StoredObject]:
        """Yield every object of a kind, in no order."""
        for one in self._objects.below(kind):
            name = one.key.removeprefix(f"{kind}/")
            if self.folder is None and name.endswith(INDEX):
                whole = name.removesuffix(INDEX)
                yield StoredObject(whole, self._parts.size_of(f"{kind}/{whole}"), one.stored_at)
            else:
                yield StoredObject(name, one.size_bytes, one.stored_at)

    def remove(self, kind: ObjectKind, name: str) -> None:
        """Remove an object that nothing names, and its local copy."""
        key = f"{kind}/{name}"
        self._objects.remove(key)
        if self.folder is None:
            self._parts.remove(key)
        self._local.copy_of(kind, name).unlink(missing_ok=True)

    def probe(self) -> None:
        """Return where store and local disk can be written to now; EvidenceStoreError otherwise.

        It tries once, and waits for a few seconds at most.
        """
        self._local.probe()
        if self.folder is not None:
            with wrap_disk_errors("keep an object"):
                _write_and_remove(self.folder / f".probe-{uuid4()}")
        else:
            for _ in ObjectStore(bucket_of(self._url or "", patient=False)).below("probe"):
                pass

    @property
    def unpacked(self) -> Path:
        """The folder of bundles that were unpacked to hand out single files."""
        return self._local.unpacked

    def remove_local(self, *, before: datetime) -> int:
        """Remove copies, drafts and unpacked bundles from before, on this machine; say how many.

        What is needed again is fetched again.
        """
        return self._local.forget(before=before)

    def remove_broken_uploads(self, *, before: datetime) -> int:
        """Remove the parts of broken uploads from before that were not resumed."""
        if self.folder is None:
            return self._parts.remove_leftovers(before=before)
        # obstore's temporary files: its own listing does not show them.
        left = [
            path
            for kind in ObjectKind
            for path in (self.folder / kind).glob("*#*")
            if path.stat().st_mtime <= before.timestamp()
        ]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def _send(self, kind: ObjectKind, sha256: str, source: Path, size: int) -> None:
        key = key_of(kind, sha256)
        if self.folder is not None:
            self._objects.put(key, source)
            with wrap_disk_errors("make an object durable"):
                _sync(self.folder / kind / sha256)
        elif size > PART_BYTES:
            self._parts.put(key, source, size_bytes=size)
        else:
            with wrap_disk_errors("read what is to be kept"):
                content = source.read_bytes()
            self._objects.put(key, content)

    def _fetch(self, kind: ObjectKind, sha256: str, place: Path) -> None:
        with self.draft() as draft:
            with wrap_disk_errors("keep a local copy"), draft.open("wb") as target:
                self._receive(kind, sha256, target)
            with wrap_disk_errors("keep a local copy"):
                place.parent.mkdir(parents=True, exist_ok=True)
                draft.replace(place)

    def _receive(self, kind: ObjectKind, sha256: str, target: Sink | None) -> None:
        """Read an object to its end, into `target` where one is given, and verify it."""
        key = key_of(kind, sha256)
        pieces = self._objects.read(key)
        if pieces is None and self.folder is None:
            pieces = self._parts.read(key)
        if pieces is None:
            require_found(kind, sha256, None)
            return
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
            if target is not None:
                target.write(piece)
        require_found(kind, sha256, digest.hexdigest())

    def _must_find(self, kind: ObjectKind, sha256: str) -> StoredObject:
        there = self.find(kind, sha256)
        if there is None:
            raise EvidenceStoreError("expected an object that was kept to be there, got none")
        return there


def _write_and_remove(path: Path) -> None:
    try:
        path.write_bytes(PROBE)
    finally:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    for place in (path, path.parent, path.parent.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
