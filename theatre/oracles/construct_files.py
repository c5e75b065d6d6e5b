"""The files of a construct: which its version binds, what an argv may name, and the copy that runs.

A private copy is made, then hashed, then started: what is replaced in the construct's own folder
after that changes nothing that runs (docs/adr/0172).
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from stat import S_ISREG, S_IXUSR
from typing import NamedTuple

from theatre.engine.oracle_contract import program_version
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
            if text not in {"", PYTHON} and os.path.lexists(path):
                # `folder` is resolved: another way to it means the same place.
                found.append((before, path.parent.resolve() / path.name))
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


# A program bound to its version.


LARGE_BYTES = 64 * 1024 * 1024
"""Above this a file is linked where that can be done, and hashed once a run."""
_PREFIX = "echelon-files-"


class BoundProgram(NamedTuple):
    """What is executed, and the version that was computed of it.

    `reading` is what it runs from: the private copy, `copy`, and what else it is to see; `copy` is
    None for a program that nothing was copied for.
    """

    argv: tuple[str, ...]
    version: str
    reading: tuple[Path, ...] = ()
    copy: "PrivateFolder | None" = None

    def release(self) -> None:
        """Remove the copy, once the process has ended."""
        if self.copy is not None:
            self.copy.remove()


class CurrentProgram:
    """What an adapter runs: bound when it is needed, released when its process has ended."""

    def __init__(self, bind: Callable[[], BoundProgram]) -> None:
        self._bind = bind
        self._program: BoundProgram | None = None
        self._version: str | None = None

    @property
    def version(self) -> str:
        """Return the version of the last start; before the first, of what that will run. Blocks.

        Raises ConstructFilesError where the files cannot be read.
        """
        if self._version is None:
            self._program = self._bind()
            self._version = self._program.version
        return self._version

    async def bound(self) -> BoundProgram:
        """Return the program, bound unless it is; errors as `version`."""
        if self._program is None:
            self._program = await asyncio.to_thread(self._bind)
        self._version = self._program.version
        return self._program

    def release(self) -> None:
        """Remove the copy, if there is one; the version stays known."""
        if self._program is not None:
            self._program.release()
            self._program = None


class PrivateFolder:
    """A folder below the system's temporary one that only this user can read.

    It goes by `remove`, with the object, or at the exit of the process. After a crash the next
    one that is made removes it: a lock on the folder says that it is still in use.
    """

    def __init__(self) -> None:
        _remove_abandoned()
        made = Path(tempfile.mkdtemp(prefix="echelon-new-"))
        lock = os.open(made, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name it counts as abandoned as soon as the lock is free.
        self.path = made.rename(made.with_name(made.name.replace("echelon-new-", _PREFIX)))
        self.remove = weakref.finalize(self, _remove, self.path, lock)

    def close_to_writing(self) -> None:
        """Let nothing be added to its folders, until it is removed."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            Path(folder).chmod(0o500)


class ProgramSource:
    """The argv, folder and files of a construct; each start of it takes a new copy."""

    def __init__(self, argv: Sequence[str], folder: Path, patterns: Sequence[str]) -> None:
        """Take an argv as written, with `{python}` and `{folder}` in it."""
        self._argv = tuple(argv)
        self._folder = folder
        self._patterns = tuple(patterns)
        self._large: dict[tuple[int, ...], str] = {}

    def bind(self) -> BoundProgram:
        """Copy the listed files, hash the copies, and return the program that runs from them.

        Raises ConstructFilesError where the files or the argv are not as `listed_files` and
        `refuse_unlisted` demand.
        """
        # Hash the copies, not the originals: a file changed after hashing would run unnoticed.
        names = listed_files(self._folder, self._patterns)
        refuse_unlisted(self._argv, self._folder, names)
        copy = PrivateFolder()
        try:
            for name in names:
                _copy(self._folder / name, copy.path / name)
            hashes = {name: self._hash(copy.path / name) for name in names}
            copy.close_to_writing()
        except BaseException:
            # Also where the run is stopped meanwhile: no half copy stays.
            copy.remove()
            raise
        argv = tuple(_fill(argument, self._folder, copy.path) for argument in self._argv)
        version = program_version(self._argv, hashes)
        return BoundProgram(argv=argv, version=version, reading=(copy.path,), copy=copy)

    def version(self) -> str:
        """Return the version of the files as they are now, without a copy; errors as `bind`."""
        names = listed_files(self._folder, self._patterns)
        refuse_unlisted(self._argv, self._folder, names)
        return program_version(self._argv, {name: file_hash(self._folder / name) for name in names})

    def _hash(self, path: Path) -> str:
        facts = path.stat()
        if facts.st_size <= LARGE_BYTES:
            return file_hash(path)
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if identity not in self._large:
            self._large[identity] = file_hash(path)
        return self._large[identity]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Not through a link that took the file's place since it was listed.
        with open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:  # noqa: PTH123
            facts = os.fstat(file.fileno())
            if not S_ISREG(facts.st_mode):
                raise ConstructFilesError(f"expected a plain file, got {source}")
            if facts.st_size > LARGE_BYTES and _link_large(source, target, facts):
                return
            with target.open("xb") as copy:
                shutil.copyfileobj(file, copy)
        target.chmod(0o500 if facts.st_mode & S_IXUSR else 0o400)
    except OSError as error:
        raise ConstructFilesError(f"expected to copy {source}, got: {error.strerror}") from error


def _link_large(source: Path, target: Path, facts: os.stat_result) -> bool:
    """Link a large file, if it is still the one that was opened; its mode is its owner's."""
    with suppress(OSError):
        os.link(source, target, follow_symlinks=False)
        if os.path.samestat(target.lstat(), facts):
            return True
        target.unlink()
    return False


def _fill(argument: str, folder: Path, copy: Path) -> str:
    """Return an argument with its placeholders filled, and paths into `folder` led to the copy."""
    for before, path in named_paths(argument, folder):
        text = argument.removeprefix(before)
        if path.is_relative_to(folder) and (FOLDER in text or Path(text).is_absolute()):
            return before + str(copy / path.relative_to(folder))
    return argument.replace(PYTHON, sys.executable).replace(FOLDER, str(copy))


def remove_folder(folder: Path) -> None:
    """Remove a folder and what a program left in it, as far as that can be done.

    Modes are changed of folders alone: a link in one that is closed may lead to a file of ours, of
    which `tempfile` would change the mode (CVE-2023-6597).
    """
    for inner, names, _ in os.walk(folder):
        for path in (Path(inner), *(Path(inner) / name for name in names)):
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, lock: int) -> None:
    remove_folder(folder)
    os.close(lock)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                # Another user could put a folder of this name into a shared temporary folder.
                if os.fstat(lock).st_uid != os.getuid():
                    raise PermissionError(folder)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            _remove(folder, lock)
