"""Disks of a few megabytes that can be filled to the last byte: real file systems in memory."""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_BALLAST = "ballast"
_PIECE = bytes(64 * 1024)


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system of its own, mounted at `folder`."""

    folder: Path

    def fill(self) -> None:
        """Leave no byte free, nor what somebody frees meanwhile; to be repeated at leisure."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
            for piece in (_PIECE, _PIECE[:1]):
                with contextlib.suppress(_Full):
                    while True:
                        _write(ballast.fileno(), piece)

    def free(self) -> None:
        """Remove what fills it, and nothing else."""
        (self.folder / _BALLAST).unlink()

    def names(self) -> set[str]:
        """Every file and folder on it but the ballast, by path; some may be gone meanwhile."""
        found = {
            os.path.relpath(Path(folder) / name, self.folder)
            for folder, folders, files in os.walk(self.folder)
            for name in (*folders, *files)
        }
        return found - {_BALLAST}


@contextlib.contextmanager
def small_disk(folder: Path, *, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a small file system at a new folder; skips the test where that is not allowed."""
    folder.mkdir(parents=True)
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a disk that is full needs root on Linux, which may mount a small one")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk that is full needs to be mounted, got {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: whoever still has a file open there does not keep it in the tree.
        subprocess.run(["umount", "--lazy", folder], check=True)


class _Full(Exception):  # noqa: N818 - what is looked for, no error
    """There is no room for a piece."""


def _write(handle: int, piece: bytes) -> None:
    try:
        os.write(handle, piece)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from error
