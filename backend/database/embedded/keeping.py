"""The keeper as seen by those who use the server: started, watched, waited for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from pathlib import Path

from backend.database.embedded import keeper
from backend.database.embedded.cluster import Cluster, hold_lock, is_held
from backend.database.embedded.programs import Programs

_SETTINGS = (
    "listen_addresses=",
    "jit=off",
    "log_timezone=UTC",
    "max_connections=100",
    "timezone=UTC",
    "unix_socket_permissions=0700",
)
_END_OF_LOG = 1500


class Supervisor:
    """The keeper of the server whose state is in one folder; this process may be its parent."""

    def __init__(self, state: Path) -> None:
        self.users = state / "users.lock"
        self._alive = state / "alive.lock"
        self._log = state / "server.log"
        self._child: int | None = None

    def is_alive(self) -> bool:
        """Tell whether there is a keeper."""
        return is_held(self._alive)

    def start(self, cluster: Cluster, programs: Programs) -> None:
        """Start a keeper, which starts the server. Its log begins anew; the earlier one is kept."""
        self.has_ended()
        if self._log.exists():
            self._log.replace(self._log.with_name("server.log.previous"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        # Not subprocess: the keeper should outlive this process, and Popen would warn about that.
        self._child = os.posix_spawn(
            sys.executable,
            [
                *(sys.executable, "-I", "-S", str(Path(keeper.__file__).resolve())),
                *(str(self.users), str(self._alive)),
                *(str(cluster.account.uid), str(cluster.account.gid), str(cluster.sockets)),
                *_command(cluster, programs),
            ],
            {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )

    def has_ended(self) -> bool:
        """Tell whether the keeper that this process started has ended; True without one."""
        if self._child is None:
            return True
        ended = self._child
        with contextlib.suppress(ChildProcessError):
            ended, _ = os.waitpid(self._child, os.WNOHANG)
        if ended:
            self._child = None
        return bool(ended)

    def end(self) -> None:
        """Have the keeper that this process started stop its server, and wait for both."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._child, signal.SIGTERM)
                os.waitpid(self._child, 0)
            self._child = None

    def await_end(self) -> None:
        """Wait until the keeper has ended, whichever process is its parent."""
        with hold_lock(self._alive, fcntl.LOCK_SH):
            if self._child is not None:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self._child, 0)
                self._child = None

    def end_of_log(self) -> str:
        """Return the last lines that the server wrote."""
        try:
            log = self._log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"nothing ({error.strerror})"
        return log.strip()[-_END_OF_LOG:] or "nothing"


def _command(cluster: Cluster, programs: Programs) -> list[str]:
    command = [str(programs.postgres), "-D", str(cluster.data)]
    for setting in (*_SETTINGS, f"unix_socket_directories={cluster.sockets}"):
        command += ["-c", setting]
    return command
