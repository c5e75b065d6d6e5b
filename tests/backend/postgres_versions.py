"""The PostgreSQLs of this machine, one of each major version, and a server of each for a test."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from backend.database.embedded.cluster import SUPERUSER
from backend.database.embedded.programs import (
    Account,
    Programs,
    find_programs,
    prepare_programs,
    service_account,
)
from backend.database.sessions import APPLICATION, OWNER
from tests.backend.databases import Database

FOLDERS = "ECHELON_TEST_POSTGRESQL"
"""More folders with `initdb`, `pg_ctl` and `postgres`, separated like PATH."""


def installed() -> dict[int, Programs]:
    """Return by major version what Debian puts side by side, what FOLDERS names, and the wheel."""
    named = map(Path, filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)))
    found = [_programs(one) for one in (*Path("/usr/lib/postgresql").glob("*/bin"), *named)]
    return {one.major: one for one in sorted([*found, find_programs()], key=lambda one: one.major)}


def _programs(folder: Path) -> Programs:
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, check=True)
    release = re.search(r"\d+(?:\.\d+)*", said.stdout.decode())
    assert release is not None
    return Programs(bin=folder, major=int(release[0].partition(".")[0]), release=release[0])


class VersionServer:
    """A server of one version, with the roles of the service."""

    def __init__(self, sockets: Path) -> None:
        self._sockets = sockets
        with self._as_superuser() as connection:
            for role in (OWNER, APPLICATION):
                connection.execute(f"CREATE ROLE {role} LOGIN".encode())

    def major(self) -> int:
        """Return what the server itself says."""
        with self._as_superuser() as connection:
            return connection.info.server_version // 10_000

    def database(self, name: str) -> Database:
        """Make an empty database."""
        with self._as_superuser() as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER {OWNER}".encode())
        return Database(
            application=self._address(APPLICATION, name),
            owner=self._address(OWNER, name),
            superuser=self._address(SUPERUSER, name),
        )

    def _as_superuser(self) -> psycopg.Connection:
        return psycopg.connect(self._address(SUPERUSER, "postgres"), autocommit=True)

    def _address(self, role: str, name: str) -> str:
        return f"postgresql://{role}@/{name}?host={self._sockets}"


@contextlib.contextmanager
def server_of(programs: Programs) -> Iterator[VersionServer]:
    """Run a server; it is stopped after, and its data are removed."""
    account = service_account()
    programs = prepare_programs(account, programs)
    # Not a folder of pytest: those are closed to the user of the server.
    home = Path(tempfile.mkdtemp(prefix=f"echelon-pg{programs.major}-"))
    account.give_ownership(home)
    control: list[Path | str] = [programs.bin / "pg_ctl", "--wait", f"--pgdata={home / 'data'}"]
    try:
        _run(
            account,
            [programs.initdb, f"--pgdata={home / 'data'}", f"--username={SUPERUSER}"],
            ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"],
        )
        settings = f"-c listen_addresses= -c fsync=off -c unix_socket_directories={home}"
        _run(account, control, [f"--log={home / 'log'}", f"--options={settings}", "start"])
        try:
            yield VersionServer(home)
        finally:
            _run(account, control, ["--mode=immediate", "stop"])
    finally:
        shutil.rmtree(home)


def _run(account: Account, program: Sequence[Path | str], arguments: Sequence[str]) -> None:
    subprocess.run(
        [*program, *arguments],
        check=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        # A server keeps what it was started with open, so that no pipe would end.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.uid if account.is_other else None,
        group=account.gid if account.is_other else None,
        extra_groups=[] if account.is_other else None,
    )
