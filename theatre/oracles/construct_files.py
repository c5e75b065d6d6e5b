"""Which files a construct's version binds, and what an argv may name in addition."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from theatre.oracles.errors import ConstructFilesError

FOLDER = "{folder}"
PYTHON = "{python}"


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


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file; ConstructFilesError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConstructFilesError(f"expected to read {path}, got: {error.strerror}") from error


def refuse_unlisted(argv: Sequence[str], folder: Path, files: Collection[str]) -> None:
    """Refuse an argv that names a file or module of this machine which `files` does not hold.

    A name on PATH and `{python}` belong to the machine. Raises ConstructFilesError by name.
    """
    for place, argument in enumerate(argv):
        paths = [path for _, path in named_paths(argument, folder)]
        for path in paths:
            _refuse_unlisted_path(path, argument, folder, files)
        if not paths and len(folder.parts) > 1 and str(folder) in argument:
            raise ConstructFilesError(f"argv names {argument}: write {FOLDER} for {folder}")
        if ":" in argument or argv[max(place - 1, 0)] == "-m":
            _refuse_unlisted_module(argument.partition(":")[0], folder, files)


def named_paths(argument: str, folder: Path) -> list[tuple[str, Path]]:
    """Return what exists of the paths that an argument may mean: itself, and what follows a `=`.

    Each as the text before it and the absolute path, of which the last step is not resolved.
    """
    option, equals, value = argument.partition("=")
    found = []
    for before, text in (("", argument), (option + equals, value)):
        with suppress(OSError, ValueError):
            path = Path(os.path.abspath(folder / text.replace(FOLDER, str(folder))))  # noqa: PTH100
            # `folder` is resolved: another way to it means the same place.
            path = path.parent.resolve() / path.name
            if text not in {"", PYTHON} and (path.is_symlink() or path.exists()):
                found.append((before, path))
    return found


def _refuse_unlisted_path(path: Path, argument: str, folder: Path, files: Collection[str]) -> None:
    is_own = path.is_relative_to(folder)
    if is_own and path.is_symlink():
        raise ConstructFilesError(
            f"argv names {argument}, a symbolic link: expected a plain file that is in files"
        )
    if path.is_file() and not (is_own and path.relative_to(folder).as_posix() in files):
        raise ConstructFilesError(
            f"argv names {argument}, which is not in files; name a program of the machine as on "
            f"PATH, and the running Python {PYTHON}"
        )
    if path.is_dir() and not is_own:
        raise ConstructFilesError(
            f"argv names {argument}, a folder outside {folder}: what lies there is not in files"
        )


def _refuse_unlisted_module(name: str, folder: Path, files: Iterable[str]) -> None:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    listed = frozenset(files)
    stem = "/".join(parts)
    sources = [f"{stem}.py", f"{stem}/__init__.py", f"{stem}/__main__.py"]
    there = [source for source in sources if (folder / source).exists()]
    if there and not listed.intersection(there):
        raise ConstructFilesError(f"argv names the module {name}, but {there[0]} is not in files")


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
