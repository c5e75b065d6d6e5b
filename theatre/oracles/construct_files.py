"""What a construct's version hashes: its listed files (contract/construct.md, "Envelope")."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from theatre.engine.canonical_json import sha256_hex
from theatre.oracles.errors import ConstructFilesError


def listed_files(folder: Path, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the POSIX paths below `folder` that match any of the globs, sorted.

    Raises ConstructFilesError for a pattern that matches no file or leaves the folder, and for
    a file that is a symbolic link, lies behind one, or whose name does not fit on a line.
    """
    found: set[str] = set()
    for pattern in patterns:
        matches = _matches(folder, pattern)
        if not matches:
            raise ConstructFilesError(
                f"expected files that match {pattern!r} in {folder}, got none"
            )
        found |= matches
    return tuple(sorted(found))


def content_hash(folder: Path, files: Iterable[str]) -> str:
    """Return SHA-256 over the sorted lines `<sha256>  <path>` of `files` below `folder`.

    The same as `sha256sum FILE… | LC_ALL=C sort | sha256sum` run in `folder`. Raises
    ConstructFilesError for a file that cannot be read.
    """
    lines = [f"{_file_hash(folder / name)}  {name}\n".encode() for name in files]
    return sha256_hex(b"".join(sorted(lines)))


def _matches(folder: Path, pattern: str) -> set[str]:
    parts = PurePosixPath(pattern).parts
    # A final `**` means folders before Python 3.13 and files since: it would not hash alike.
    if not parts or PurePosixPath(pattern).is_absolute() or ".." in parts or parts[-1] == "**":
        raise ConstructFilesError(
            f"expected a pattern for files below {folder}, got {pattern!r:.200}"
        )
    try:
        paths = list(folder.glob(pattern))
    except ValueError as error:
        raise ConstructFilesError(f"expected a glob, got {pattern!r:.200}: {error}") from error
    return {_own_name(folder, path) for path in paths if path.is_symlink() or path.is_file()}


def _own_name(folder: Path, path: Path) -> str:
    """Return the name of a matched file, if it is really a file of this folder."""
    relative = path.relative_to(folder)
    on_the_way = [folder.joinpath(*relative.parts[: n + 1]) for n in range(len(relative.parts))]
    link = next((step for step in on_the_way if step.is_symlink()), None)
    if link is not None:
        raise ConstructFilesError(
            f"expected plain files, got the symbolic link {link}: its target is not in the "
            "construct's hands; copy it into the folder"
        )
    name = relative.as_posix()
    if not name.isprintable():
        raise ConstructFilesError(f"expected a file name in printable Unicode, got {name!r:.200}")
    return name


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConstructFilesError(f"expected to read {path}, got: {error.strerror}") from error
