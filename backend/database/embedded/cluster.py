"""The data folder of the embedded server: where it is, how it is made, whose process uses it."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backend.database.embedded.programs import Account, Programs, is_reachable, make_shared_folder
from backend.errors import EmbeddedServerError

SUPERUSER = "postgres"
_PROC = Path("/proc")
_PATIENCE_SECONDS = 60.0
_BUILTIN_LOCALE_SINCE = 17
_SYNC_METHOD_SINCE = 17
# A socket's path has to fit into 107 bytes, whatever the home folder is called.
_SOCKETS = Path("/tmp")  # noqa: S108 - a folder of mode 0700 in it, owner and mode are checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One data folder and the folder of its sockets, owned by `account`, mode 0700."""

    data: Path
    sockets: Path
    account: Account

    @classmethod
    def below(cls, state: Path, account: Account) -> "Cluster":
        """Return the cluster that belongs to the folder `state`; a new one is only named.

        EmbeddedServerError where its data has come out of reach of `account`.
        """
        record, at_home = state / "instance.json", is_reachable(state, account)
        if not record.exists():
            _write(record, {"id": secrets.token_hex(8), "at_home": at_home})
        instance = json.loads(record.read_text(encoding="utf-8"))
        if instance["at_home"] and not at_home:
            # A closed folder must not lead to a second, empty database.
            raise EmbeddedServerError(
                f"expected {state} within reach of the user {account.name}, who runs PostgreSQL "
                "on the data in it, got a closed folder above it: open it again"
            )
        name = instance["id"]
        home = state if instance["at_home"] else _alternative_folder(name, account)
        return cls(data=home / "data", sockets=_SOCKETS / f"echelon-{name}", account=account)

    def prepare(self, programs: Programs) -> None:
        """Make the data folder if there is none, and the folder of the sockets.

        Raises EmbeddedServerError for data of another major version, and where making it fails.
        """
        for draft in self.data.parent.glob("draft-*"):
            shutil.rmtree(draft, ignore_errors=True)
        if not self.data.is_dir():
            _initialise(self.data, programs, self.account)
        major = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if major != str(programs.major):
            raise EmbeddedServerError(
                f"expected data of PostgreSQL {programs.major} in {self.data}, got {major}: dump "
                f"it with the programs of PostgreSQL {major} and restore the dump into a new folder"
            )
        self._prepare_sockets()

    def system_identifier(self) -> int | None:
        """Return which cluster the data folder holds; None where it holds none."""
        try:
            with (self.data / "global" / "pg_control").open("rb") as control:
                (identifier,) = struct.unpack("=Q", control.read(8))
        except (OSError, struct.error):
            return None
        return int(identifier)

    def clear_predecessor(self) -> None:
        """End a server on this data folder that has no keeper any more (Linux).

        Also waits for what a killed one left, and removes a `postmaster.pid` that names a zombie
        or another program. That of a process that does not exist is PostgreSQL's own to deal with.
        """
        if sys.platform != "linux":
            return
        record = self.data / "postmaster.pid"
        with contextlib.suppress(OSError, ValueError):
            pid = int(record.read_text(encoding="utf-8").split("\n", 1)[0])
            os.kill(pid, 0)
            if self._works_here(pid):
                os.kill(pid, signal.SIGINT)
            else:
                record.unlink()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline and any(map(self._works_here, _processes())):
            time.sleep(0.01)
        if self._owns_sockets():
            # Their lock names a process too, which may be a zombie as well.
            for name in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
                (self.sockets / name).unlink(missing_ok=True)

    def _works_here(self, pid: int) -> bool:
        """Tell whether a process has the data folder as its own: PostgreSQL's processes do."""
        try:
            return (_PROC / str(pid) / "cwd").samefile(self.data)
        except OSError:
            # The process is gone, a zombie, or of another user; or there is no data folder yet.
            return False

    def _prepare_sockets(self) -> None:
        with contextlib.suppress(FileExistsError):
            self.sockets.mkdir(mode=0o700)
            self.account.give_ownership(self.sockets)
        if not self._owns_sockets():
            raise EmbeddedServerError(
                f"expected {self.sockets} to be a folder of mode 0700 of the user "
                f"{self.account.name}, got another: remove it"
            )

    def _owns_sockets(self) -> bool:
        try:
            seen = self.sockets.lstat()
        except FileNotFoundError:
            return False
        is_own = stat.S_ISDIR(seen.st_mode) and seen.st_uid == self.account.uid
        return is_own and stat.S_IMODE(seen.st_mode) == stat.S_IRWXU


def _processes() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]


def _alternative_folder(instance: str, account: Account) -> Path:
    folder = make_shared_folder() / instance
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        account.give_ownership(folder)
    return folder


def _write(path: Path, document: dict[str, str | bool]) -> None:
    draft = path.with_name(f".{path.name}.partial")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)


def _initialise(data: Path, programs: Programs, account: Account) -> None:
    """Make a data folder under a temporary name, then rename it: it is complete or absent."""
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=data.parent))
    account.give_ownership(draft)
    made = subprocess.run(  # noqa: S603 - a program that was found by `find_programs`
        [programs.initdb, "--pgdata", draft, *_initdb_options(programs.major)],
        check=False,
        cwd="/",
        env={"PATH": str(programs.bin), "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        user=account.uid if account.is_other else None,
        group=account.gid if account.is_other else None,
        extra_groups=[] if account.is_other else None,
    )
    if made.returncode != 0:
        shutil.rmtree(draft, ignore_errors=True)
        raise EmbeddedServerError(
            f"expected initdb to make {data}, got: {(made.stderr or made.stdout).strip()[-1500:]}"
        )
    draft.rename(data)


def _initdb_options(major: int) -> list[str]:
    options = [
        f"--username={SUPERUSER}",
        "--encoding=UTF8",
        "--auth-local=trust",
        "--auth-host=reject",
        "--no-instructions",
        "--data-checksums",
    ]
    if major >= _BUILTIN_LOCALE_SINCE:
        # The same order of texts on every machine.
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    else:
        options += ["--locale=C"]
    if major >= _SYNC_METHOD_SINCE and sys.platform == "linux":
        options += ["--sync-method=syncfs"]
    return options


# File locks that the kernel releases when their process ends, however it ends.


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
