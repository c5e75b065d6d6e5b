"""The evidence store: objects under the SHA-256 of their bytes, in a folder or in a bucket.

An object is written once, durable before anything names it, and verified whenever it is read. No
write depends on a condition: S3-compatible servers differ in whether they honour one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, S3Store

from backend.errors import EvidenceDamagedError, EvidenceStoreError, SettingsError

CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
"""For one request; a large object is sent and fetched in several."""
_RETRIES = 3
_RETRY_SECONDS = 20
_CHUNK_BYTES = 1024 * 1024
_ABSENT = (FileNotFoundError, NotFoundError)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Shelf(StrEnum):
    """What kinds of objects there are; the first part of their keys."""

    DATASETS = "datasets"
    BUNDLES = "bundles"
    EXPORTS = "exports"


class KeptObject(NamedTuple):
    """An object as the store lists it; the name is the SHA-256 that its bytes should have."""

    name: str
    size_bytes: int
    kept_at: datetime


class EvidenceStore:
    """One store. Everything here blocks: call it in a thread.

    EvidenceStoreError where the store does not answer or takes nothing (its disk is full);
    EvidenceDamagedError where an object is not there or has other bytes.
    """

    def __init__(self, url: str | None, home: Path) -> None:
        """Open the store at `url` (`file://` or `s3://`); without one, the folder `home`.

        In `home` are local copies and drafts, too. Nothing is asked of a bucket yet.
        """
        self._local = home / "cache"
        self._folder = _folder_of(url, home)
        self._store: LocalStore | S3Store
        if self._folder is None:
            self._store = _bucket(url or "")
        else:
            with _answering("open the folder"):
                self._store = LocalStore(self._folder, mkdir=True)

    @contextlib.contextmanager
    def draft(self) -> Iterator[Path]:
        """Give a new path on the local disk for what is to be kept; the file is removed after.

        What the disk refuses meanwhile is raised as EvidenceStoreError.
        """
        drafts = self._local / "drafts"
        with _disk("make a draft"):
            drafts.mkdir(parents=True, exist_ok=True)
        path = drafts / str(uuid4())
        try:
            with _disk("write a draft"):
                yield path
        finally:
            path.unlink(missing_ok=True)

    def keep(self, shelf: Shelf, source: Path) -> KeptObject:
        """Make the bytes of a file durable under their hash; the same bytes again change nothing.

        Goes on by objects: what an earlier attempt has brought there whole is not sent again.
        """
        with _disk("read what is to be kept"), source.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            size = source.stat().st_size
        there = self.find(shelf, sha256)
        if there is not None and there.size_bytes == size:
            return there
        with _answering("keep an object"):
            obstore.put(self._store, _key(shelf, sha256), source)
        if self._folder is not None:
            with _disk("make an object durable"):
                _sync(self._folder / shelf / sha256)
        return self._must_find(shelf, sha256)

    def bring(self, shelf: Shelf, sha256: str) -> Path:
        """Return a local file with the verified bytes of an object.

        A file is hashed once for as long as the process runs and the file is not written to.
        """
        place = (self._folder or self._local) / shelf / _name(sha256)
        if self._folder is None and not _holds(place, sha256):
            self._fetch(shelf, sha256, place)
        found = _sha256_at(place)
        if found != sha256:
            raise EvidenceDamagedError(_told(shelf, sha256, found), found=found)
        return place

    def verify(self, shelf: Shelf, sha256: str) -> None:
        """Read an object's bytes from the store itself, past every local copy; errors as above."""
        self._receive(shelf, sha256, None)

    def copy_out(self, shelf: Shelf, sha256: str, target: Path) -> None:
        """Put an object's verified bytes at a path outside of the store, durable; errors as above.

        Nothing is there where they are not those of the hash.
        """
        with _disk("copy an object"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("wb") as handle:
                    self._receive(shelf, sha256, handle)
                    handle.flush()
                    os.fsync(handle.fileno())
            except EvidenceDamagedError:
                target.unlink()
                raise

    def find(self, shelf: Shelf, name: str) -> KeptObject | None:
        """Return what the store says of an object; None where there is none."""
        with _answering("look for an object"):
            try:
                meta = obstore.head(self._store, f"{shelf}/{name}")
            except _ABSENT:
                return None
        return KeptObject(name, meta["size"], meta["last_modified"])

    def kept(self, shelf: Shelf) -> Iterator[KeptObject]:
        """Yield every object of a shelf, in no order."""
        with _answering("list objects"):
            for page in obstore.list(self._store, f"{shelf}/"):
                for meta in page:
                    name = meta["path"].removeprefix(f"{shelf}/")
                    yield KeptObject(name, meta["size"], meta["last_modified"])

    def remove(self, shelf: Shelf, name: str) -> None:
        """Remove an object that nothing names, and its local copy."""
        with _answering("remove an object"), contextlib.suppress(*_ABSENT):
            obstore.delete(self._store, f"{shelf}/{name}")
        (self._local / shelf / name).unlink(missing_ok=True)

    @property
    def unpacked(self) -> Path:
        """The folder of bundles that were unpacked to hand out single files."""
        return self._local / "unpacked"

    def forget_local(self, *, before: datetime) -> int:
        """Remove copies, drafts and unpacked bundles from before, on this machine; say how many.

        What is asked for again is brought again.
        """
        removed = 0
        for folder in ("drafts", "unpacked", *Shelf):
            for path in (self._local / folder).glob("*"):
                if path.stat().st_mtime > before.timestamp():
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _fetch(self, shelf: Shelf, sha256: str, place: Path) -> None:
        with self.draft() as draft:
            with _disk("keep a local copy"), draft.open("wb") as target:
                self._receive(shelf, sha256, target)
            with _disk("keep a local copy"):
                place.parent.mkdir(parents=True, exist_ok=True)
                draft.replace(place)

    def _receive(self, shelf: Shelf, sha256: str, target: BinaryIO | None) -> None:
        """Read an object to its end, into `target` where one is given, and verify it."""
        digest = hashlib.sha256()
        for chunk in self._chunks(shelf, sha256):
            digest.update(chunk)
            if target is not None:
                target.write(chunk)
        found = digest.hexdigest()
        if found != sha256:
            raise EvidenceDamagedError(_told(shelf, sha256, found), found=found)

    def _chunks(self, shelf: Shelf, sha256: str) -> Iterator[memoryview]:
        with _answering("read an object"):
            try:
                found = obstore.get(self._store, _key(shelf, sha256))
            except _ABSENT:
                raise EvidenceDamagedError(_told(shelf, sha256, None), found=None) from None
            for chunk in found.stream(min_chunk_size=_CHUNK_BYTES):
                yield memoryview(chunk)

    def _must_find(self, shelf: Shelf, sha256: str) -> KeptObject:
        there = self.find(shelf, sha256)
        if there is None:
            raise EvidenceStoreError("expected an object that was kept to be there, got none")
        return there


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; hashed anew once it was written to."""
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=4096)
def _digest(path: Path, _written_at: int, _size: int, _inode: int) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _sha256_at(place: Path) -> str | None:
    with _disk("read an object"):
        try:
            return sha256_of(place)
        except FileNotFoundError:
            return None


def _holds(place: Path, sha256: str) -> bool:
    return _sha256_at(place) == sha256


def _name(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise EvidenceDamagedError(
            "expected a SHA-256 of 64 lower-case hex digits, got another text", found=None
        )
    return sha256


def _key(shelf: Shelf, sha256: str) -> str:
    return f"{shelf}/{_name(sha256)}"


def _told(shelf: Shelf, sha256: str, found: str | None) -> str:
    return f"expected {shelf}/{sha256} in the evidence store, got {found or 'none'}"


def _folder_of(url: str | None, home: Path) -> Path | None:
    if url is None:
        return home
    parts = urlsplit(url)
    if parts.scheme == "s3":
        return None
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise SettingsError("expected ECHELON_EVIDENCE_URL like file:///folder, got another form")
    return Path(unquote(parts.path))


def _bucket(url: str) -> S3Store:
    """Return a bucket. Who may use it and where it is, the usual `AWS_` variables say."""
    try:
        return S3Store.from_url(
            url,
            client_options={
                # Of the `AWS_` variables only this one is overruled by options that are given.
                "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=REQUEST_SECONDS),
            },
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            },
        )
    except (BaseError, ValueError) as error:
        # The message may quote what the environment holds.
        raise SettingsError(
            "expected ECHELON_EVIDENCE_URL like s3://bucket/prefix and AWS_ variables that fit, "
            f"got {type(error).__name__}"
        ) from None


@contextlib.contextmanager
def _answering(action: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        raise EvidenceStoreError(
            f"expected the evidence store to {action}, got {type(error).__name__}: see that it is "
            "reachable and has room"
        ) from error


@contextlib.contextmanager
def _disk(action: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EvidenceStoreError(
            f"expected the disk to {action}, got {error.strerror}: make room or mend it"
        ) from error


def _sync(path: Path) -> None:
    for place in (path, path.parent, path.parent.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
