"""Hashes of files, each computed once for as long as the file is not written to."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from backend.evidence_store.failures import wrap_disk_errors


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
