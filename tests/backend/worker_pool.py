"""Worker processes of one database, for tests that kill, pause and stop them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from backend.database.sessions import OWNER
from tests.backend.databases import Database
from tests.theatre.echelon_process import REPOSITORY, environment, until

NURSERY = Path(__file__).with_name("worker_nursery.py")
LEASE_SECONDS = 20.0 if os.environ.get("ECHELON_SOAK") == "1" else 3.0
"""That of the service in `make soak`; else long enough for a machine that is busy."""
_WORKERS_OF_A_PROCESS = 3


class WorkerPool:
    """Starts and ends workers."""

    def __init__(
        self,
        nursery: subprocess.Popen[str],
        database: Database,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._nursery = nursery
        self._database = database
        self._log = log
        self.environment = environment

    def log(self) -> str:
        """Return what all of them have logged."""
        return self._log.read_text(encoding="utf-8")

    def fork(self, crash_point: str = "-") -> int:
        """Start a worker and return its process id; it may be dead before it is registered."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(f"{crash_point}\n")
        self._nursery.stdin.flush()
        return int(self._nursery.stdout.readline())

    def start(self) -> int:
        """Start a worker and return its process id once one more is registered."""
        before = self._registered()
        pid = self.fork()
        # It takes a second or so; each look takes the processor a few milliseconds.
        until(lambda: self._registered() - before, "a worker to register", pause=0.05)
        return pid

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def stop(self, pid: int) -> None:
        """Tell a worker to stop."""
        os.kill(pid, signal.SIGTERM)

    def pause_beyond_the_lease(self, pid: int, *, others: int) -> None:
        """Pause a worker until only the `others` are held for alive, then let it go on."""
        os.kill(pid, signal.SIGSTOP)
        left = others * _WORKERS_OF_A_PROCESS
        until(lambda: len(self._registered()) == left, "a paused worker to be given up")
        os.kill(pid, signal.SIGCONT)

    def miss(self) -> None:
        """Have no worker be heard of any more, as after their lease: where all of them are dead."""
        with self._database.connected(OWNER) as connection:
            connection.execute("UPDATE procrastinate_workers SET last_heartbeat = 'epoch'")

    def _registered(self) -> frozenset[int]:
        rows = self._database.rows("SELECT id FROM procrastinate_workers")
        return frozenset(row["id"] for row in rows)


def is_dead(pid: int) -> bool:
    """Tell whether a child of the nursery has ended; nobody has reaped it."""
    return " Z " in Path(f"/proc/{pid}/stat").read_text()[:64]


@contextlib.contextmanager
def worker_pool(database: Database, home: Path, **variables: str) -> Iterator[WorkerPool]:
    """Make a pool whose workers have short leases; none of them is left behind."""
    variables = {
        "ECHELON_DATABASE_URL": database.application,
        "ECHELON_LEASE_SECONDS": str(LEASE_SECONDS),
        "PYTHONPATH": str(REPOSITORY),
        **variables,
    }
    given = environment(home, more=variables)
    log = home.parent / "workers.log"
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [sys.executable, NURSERY],
            env=given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            encoding="utf-8",
        ) as nursery,
    ):
        try:
            yield WorkerPool(nursery, database, log, given)
        finally:
            assert nursery.stdin is not None
            nursery.stdin.close()
            nursery.wait()
