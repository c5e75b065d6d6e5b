"""A home folder with an embedded server: its users as processes, what runs in it, what it left."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from backend.database.embedded.cluster import Cluster, hold_lock
from backend.database.embedded.programs import service_account
from tests.theatre.echelon_process import (
    PATIENCE_SECONDS,
    REPOSITORY,
    processes_that_mention,
    until,
)

USER = Path(__file__).with_name("database_user.py")


class DatabaseUser:
    """One process that uses the server of a home."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.hear()

    def leave(self) -> None:
        """End by itself, which closes the server."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_SECONDS) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class EmbeddedHome:
    """A home folder and the processes that belong to its server."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.account = service_account()

    @contextlib.contextmanager
    def user(self, *, through: Sequence[str] = ()) -> Iterator[DatabaseUser]:
        """Start a user of the server; one that the test leaves behind is killed."""
        with subprocess.Popen(
            [*through, sys.executable, USER, self.home],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            try:
                yield DatabaseUser(process)
            finally:
                process.kill()

    @property
    def state(self) -> Path:
        return self.home / "postgres"

    @property
    def instance(self) -> str:
        return str(json.loads((self.state / "instance.json").read_text(encoding="utf-8"))["id"])

    @property
    def cluster(self) -> Cluster:
        return Cluster.below(self.state, self.account)

    @property
    def postmaster(self) -> int:
        record = (self.cluster.data / "postmaster.pid").read_text(encoding="utf-8")
        return int(record.split("\n")[0])

    def processes(self) -> list[int]:
        """Everything that runs for this server: its keeper and whatever works in its data."""
        own = self.cluster
        keepers = [pid for pid in pids() if f"echelon-{self.instance}" in command_of(pid)]
        workers = [pid for pid in pids() if works_in(pid, own.data)]
        return sorted({*keepers, *workers})

    def keeper(self) -> int:
        (found,) = [pid for pid in self.processes() if "keeper.py" in command_of(pid)]
        return found

    def kill(self, *pids: int) -> None:
        """Kill processes of the server, or its users; one may have followed another already."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def await_nothing_left(self) -> None:
        """Fails unless every process of the server ends, and its sockets are gone."""
        with hold_lock(self.state / "alive.lock", fcntl.LOCK_SH):
            until(lambda: not self.processes(), "the end of every process of the server")
        assert processes_that_mention(self.instance) == []

    def end(self) -> None:
        """Leave nothing of the test behind, on the machine either."""
        if not (self.state / "instance.json").exists():
            return
        self.kill(*self.processes())
        until(lambda: not self.processes(), "the end of what the test left running")
        data, sockets = self.cluster.data, self.cluster.sockets
        subprocess.run(["rm", "-rf", data, sockets], check=True)
        if not data.is_relative_to(self.home):
            data.parent.rmdir()


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(folder)
    except OSError:
        return False
