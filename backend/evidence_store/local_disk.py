"""What lies on the local disk beside the store: drafts, copies of objects, unpacked bundles."""

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
"""What a disk has to have room for, to count as one that takes something."""


class LocalDisk:
    """One folder; nothing in it is needed for longer than who put it there works with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def unpacked(self) -> Path:
        """The folder of bundles that were unpacked to hand out single files."""
        return self._folder / "unpacked"

    def copy_of(self, shelf: ObjectKind, name: str) -> Path:
        """Return where the copy of an object is, if there is one."""
        return self._folder / shelf / name

    @contextlib.contextmanager
    def draft(self) -> Iterator[Path]:
        """Give a new path for a file, which is removed after; EvidenceStoreError for a bad disk."""
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
        """Remove what was last written before; return how much."""
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
