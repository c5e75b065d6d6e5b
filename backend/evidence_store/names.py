"""Kinds of objects, and their keys."""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store

from backend.errors import EvidenceDamagedError, EvidenceStoreError, SettingsError

# From `ECHELON_EVIDENCE_URL` to a folder or a bucket.


CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
"""For one request; a large object is sent in several."""
_RETRIES = 3
_RETRY_SECONDS = 20


def folder_of(url: str | None, home: Path) -> Path | None:
    """Return the folder that an address names, `home` for none; None for a bucket.

    SettingsError for any other address.
    """
    if url is None:
        return home
    parts = urlsplit(url)
    if parts.scheme == "s3":
        return None
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise SettingsError("expected ECHELON_EVIDENCE_URL like file:///folder, got another form")
    return Path(unquote(parts.path))


def bucket_of(url: str, *, patient: bool = True) -> S3Store:
    """Return a bucket. Who may use it and where it is, the usual `AWS_` variables say.

    One that is not `patient` tries nothing twice. SettingsError for what is no such address.
    """
    try:
        return S3Store.from_url(
            url,
            client_options={
                # Of the `AWS_` variables only this one is overruled by options that are given.
                "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=REQUEST_SECONDS if patient else CONNECT_SECONDS),
            },
            retry_config={
                "max_retries": _RETRIES if patient else 0,
                "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            },
        )
    except (BaseError, ValueError) as error:
        # The message may quote what the environment holds.
        raise SettingsError(
            "expected ECHELON_EVIDENCE_URL like s3://bucket/prefix and AWS_ variables that fit, "
            f"got {type(error).__name__}"
        ) from None


# Errors of stores and disks, as EvidenceStoreError.


@contextlib.contextmanager
def wrap_store_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for any error of the store in this block."""
    try:
        yield
    except (BaseError, OSError) as error:
        raise EvidenceStoreError(
            f"expected the evidence store to {action}, got {type(error).__name__}: see that it is "
            "reachable and has room"
        ) from error


@contextlib.contextmanager
def wrap_disk_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for errors of the disk in this block, except FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EvidenceStoreError(
            f"expected the disk to {action}, got {error.strerror}: make room or mend it"
        ) from error


# Hashes of files, each computed once for as long as the file is not written to.


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; hashed anew once it was written to."""
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size, status.st_ino)


def sha256_at(place: Path) -> str | None:
    """Return the SHA-256 of a file, None where there is none; EvidenceStoreError if unreadable."""
    with wrap_disk_errors("read an object"):
        try:
            return sha256_of(place)
        except FileNotFoundError:
            return None


@lru_cache(maxsize=4096)
def _digest(path: Path, _written_at: int, _size: int, _inode: int) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ObjectKind(StrEnum):
    """The kinds of objects, which are the first part of their keys."""

    DATASETS = "datasets"
    BUNDLES = "bundles"
    EXPORTS = "exports"


class StoredObject(NamedTuple):
    """An object as the store lists it; the name is the SHA-256 that its bytes should have."""

    name: str
    size_bytes: int
    stored_at: datetime


def require_sha256(sha256: str) -> str:
    """Return a SHA-256; EvidenceDamagedError for other text, which must not become a key."""
    if not _SHA256.fullmatch(sha256):
        raise EvidenceDamagedError(
            "expected a SHA-256 of 64 lower-case hex digits, got another text", found=None
        )
    return sha256


def key_of(kind: ObjectKind, sha256: str) -> str:
    """Return the key of an object; errors as `require_sha256`."""
    return f"{kind}/{require_sha256(sha256)}"


def require_found(kind: ObjectKind, sha256: str, found: str | None) -> None:
    """Raise EvidenceDamagedError unless the bytes that were found have the hash of their key."""
    if found != sha256:
        raise EvidenceDamagedError(
            f"expected {kind}/{sha256} in the evidence store, got {found or 'none'}", found=found
        )
