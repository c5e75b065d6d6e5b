"""Files on the local disk: drafts, copies of objects, unpacked bundles."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from backend.evidence_store.failures import wrap_disk_errors
from backend.evidence_store.names import ObjectKind

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
