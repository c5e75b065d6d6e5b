"""Landlock: which rules a program starts under, by the version of the kernel's interface (ABI).

The system calls are made by `launcher.py`; here is what it is given. Names and numbers as in the
kernel's `landlock.h`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CREATE_RULESET = 444
_VERSION_FLAG = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_UNIX_SOCKET, _SIGNAL = 1 << 0, 1 << 1
_FIRST_RIGHTS = (1 << 13) - 1

_READING = _EXECUTE | _READ_FILE | _READ_DIR
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

TRUNCATE_ABI, SIGNAL_ABI = 3, 6
"""From these on truncation and signals are closed; below them seccomp must close both."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What `landlock_create_ruleset` handles, and (path, rights) for each rule."""

    handled: tuple[int, int, int]
    allowed: tuple[tuple[str, int], ...]


@cache
def landlock_abi() -> int:
    """Return the version of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    answer: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(0, answer)


def rules(
    *,
    reading: Iterable[Path],
    listing: Iterable[Path],
    writing: Iterable[Path],
    network: bool,
    abi: int,
) -> Rules:
    """Return the rules under which exactly `reading` can be read and `writing` changed.

    `listing` can be listed, with all below. Paths that are not there are left out.
    """
    files = _FIRST_RIGHTS | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= TRUNCATE_ABI else 0)  # noqa: PLR2004 - the ABI's number
    # Not handled: device ioctls, of which an allowed terminal or /dev/null knows none.
    tcp = _BIND_TCP | _CONNECT_TCP if abi >= 4 and not network else 0  # noqa: PLR2004
    scoped = _SIGNAL | _ABSTRACT_UNIX_SOCKET if abi >= SIGNAL_ABI else 0
    return Rules(
        handled=(files, tcp, scoped),
        allowed=(
            *_each(reading, _READING),
            *_each(listing, _READ_DIR),
            *_each(writing, files),
        ),
    )


def _each(paths: Iterable[Path], rights: int) -> Iterator[tuple[str, int]]:
    for path in paths:
        if path.is_dir():
            yield str(path), rights
        elif path.exists():
            # A rule for a file must not have the rights of a folder.
            yield str(path), rights & _FOR_FILES
