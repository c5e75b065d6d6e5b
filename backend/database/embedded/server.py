"""Starts the private PostgreSQL, or joins it where another process has started it already.

Every process that uses the server holds a shared lock; `keeper.py` stops the server when the last
of them has ended. Linux and macOS.
"""

import contextlib
import fcntl
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql

from backend.database.embedded import keeper
from backend.database.embedded.cluster import (
    SUPERUSER,
    Cluster,
    hold_lock,
    is_held,
    open_lock_file,
    try_lock,
)
from backend.database.embedded.programs import (
    Programs,
    find_programs,
    prepare_programs,
    service_account,
)
from backend.database.sessions import APPLICATION, DATABASE, OWNER
from backend.errors import EmbeddedServerError

PATIENCE_SECONDS = 300.0
"""How long a start may take: after a crash the log has to be replayed."""

_POLL_SECONDS = 0.01
_WATCH_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


class EmbeddedServer:
    """The private PostgreSQL of one home folder. `start` and `close`, or a `with` statement."""

    def __init__(self, home: Path) -> None:
        """Name the server whose state is in `home/postgres`; nothing is touched yet."""
        self._state = home.absolute() / "postgres"
        self._supervisor = Supervisor(self._state)
        self._users: int | None = None
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server or join it; start it again after it died. Blocks.

        Raises EmbeddedServerError where it cannot be started, with the end of its log.
        """
        self._state.mkdir(parents=True, exist_ok=True)
        with hold_lock(self._state / "start.lock"):
            if self._users is None:
                self._users = open_lock_file(self._supervisor.users)
                # Waits for a keeper that is stopping the server at this moment.
                fcntl.flock(self._users, fcntl.LOCK_SH)
            try:
                self._cluster = Cluster.below(self._state, service_account())
                if not self._join(self._cluster):
                    self._begin(self._cluster)
                self._make_roles()
            except BaseException:
                self._leave()
                raise

    @contextmanager
    def revived(self) -> Iterator[None]:
        """Start the server again within seconds of its death, until the end of the `with` block."""
        ended, cluster = threading.Event(), self._cluster

        def watch() -> None:
            while not ended.wait(_WATCH_SECONDS):
                # Where the data are gone, an empty database would take their place.
                if cluster is None or cluster.system_identifier() is None:
                    continue
                try:
                    with hold_lock(self._state / "start.lock"):
                        is_alive = self._supervisor.is_alive()
                    if not is_alive:
                        _LOG.warning("the embedded database has ended, and is started again")
                        self.start()
                except (EmbeddedServerError, OSError, psycopg.Error) as error:
                    _LOG.error("the embedded database does not start again: %s", error)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join()

    def close(self) -> None:
        """Leave the server; the last one to leave waits until it has stopped."""
        if self._users is None or not self._state.is_dir():
            self._leave()
            return
        with hold_lock(self._state / "start.lock"):
            last = try_lock(self._users, fcntl.LOCK_EX)
            # A failed attempt releases the lock. Only a keeper that is stopping the server, because
            # no other process held one, refuses this one.
            last = last or not try_lock(self._users, fcntl.LOCK_SH)
            self._leave()
            if last:
                self._supervisor.await_end()

    def address(self, role: str = APPLICATION, database: str = DATABASE) -> str:
        """Return the address of a database for a role, as `ECHELON_DATABASE_URL` has it."""
        if self._cluster is None:
            raise EmbeddedServerError("expected a server that was started, got one that was not")
        host = urlencode({"host": str(self._cluster.sockets)}, safe="/")
        return f"postgresql://{quote(role)}@/{quote(database)}?{host}"

    def _join(self, cluster: Cluster) -> bool:
        """Tell whether a server of this cluster answers; wait for one that is still starting."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._supervisor.is_alive():
            if self._answers(cluster):
                return True
            if time.monotonic() > deadline:
                raise self._start_error(cluster)
            time.sleep(_POLL_SECONDS)
        return False

    def _begin(self, cluster: Cluster) -> None:
        programs = prepare_programs(cluster.account, find_programs())
        cluster.clear_predecessor()
        cluster.prepare(programs)
        self._supervisor.start(cluster, programs)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._answers(cluster):
            if self._supervisor.has_ended() or time.monotonic() > deadline:
                self._supervisor.end()
                raise self._start_error(cluster)
            time.sleep(_POLL_SECONDS)

    def _answers(self, cluster: Cluster) -> bool:
        """Tell whether a real query is answered, by a server on this very data folder."""
        give_ownership = cluster.system_identifier()
        try:
            with self._as_superuser() as connection:
                query = "SELECT system_identifier FROM pg_control_system()"
                row = connection.execute(query).fetchone()
        except psycopg.Error:
            return False
        # SQL shows the 64 bits as a signed number.
        return give_ownership is not None and row is not None and row[0] % 2**64 == give_ownership

    def _make_roles(self) -> None:
        with self._as_superuser() as connection:
            roles = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")}
            for role in (OWNER, APPLICATION):
                if role not in roles:
                    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
            query = "SELECT 1 FROM pg_database WHERE datname = %s"
            if connection.execute(query, [DATABASE]).fetchone() is None:
                create = sql.SQL("CREATE DATABASE {} OWNER {}")
                connection.execute(create.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))

    def _as_superuser(self) -> psycopg.Connection:
        address = self.address(SUPERUSER, "postgres")
        return psycopg.connect(address, autocommit=True, connect_timeout=5)

    def _leave(self) -> None:
        if self._users is not None:
            os.close(self._users)
            self._users = None
        self._cluster = None

    def _start_error(self, cluster: Cluster) -> EmbeddedServerError:
        return EmbeddedServerError(
            f"expected PostgreSQL to start on {cluster.data}, got in its log: "
            f"{self._supervisor.end_of_log()}"
        )


# The keeper as seen by those who use the server: started, watched, waited for.


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
