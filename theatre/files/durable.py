"""Durable writes: after these return, a power cut loses nothing."""

import os
from pathlib import Path


def append_durably(path: Path, data: bytes) -> int:
    """Append `data` to `path`, wait until the disk has it, return the offset it begins at.

    Where the disk refuses (it is full, say), what was written of `data` is taken back.
    """
    # Unbuffered: a buffer would write the rest of refused data when the file is closed.
    with path.open("ab", buffering=0) as handle:
        begin = handle.seek(0, os.SEEK_END)
        try:
            _write_all(handle.fileno(), data)
            os.fsync(handle.fileno())
            if begin == 0:
                sync_folder(path.parent)
        except OSError:
            handle.truncate(begin)
            raise
    return begin


def truncate_durably(path: Path, size: int) -> None:
    """Cut `path` to `size` bytes and wait until the disk has it."""
    with path.open("r+b") as handle:
        handle.truncate(size)
        os.fsync(handle.fileno())


def replace_durably(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one.

    A new file has the permissions of `mode`, less what the process takes away from all its files.
    """
    draft = path.with_name(f".{path.name}.partial")
    draft.unlink(missing_ok=True)
    write_synced(draft, data, mode=mode)
    # The data is on disk before the name points to it; otherwise a power cut leaves an empty file.
    draft.replace(path)
    sync_folder(path.parent)


def write_synced(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file and wait until the disk has it; its name is durable after `sync_folder`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        _write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    """Write all of `data`: one system call may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
