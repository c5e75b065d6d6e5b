"""File locks that the kernel releases when their process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lock_file(path: Path) -> int:
    """Return a handle on `path`, created if missing, that no child process inherits."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(handle: int, operation: int) -> bool:
    """Lock without waiting; tell whether that was possible."""
    try:
        fcntl.flock(handle, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Tell whether a process holds the exclusive lock on `path`."""
    handle = open_lock_file(path)
    try:
        return not try_lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


@contextmanager
def hold_lock(path: Path, operation: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on `path`, waited for."""
    handle = open_lock_file(path)
    try:
        fcntl.flock(handle, operation)
        yield
    finally:
        os.close(handle)
