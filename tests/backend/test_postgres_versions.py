"""A backup is restored on each PostgreSQL that the service works with, and between them."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from backend.database import migrations
from backend.database.embedded.cluster import SUPERUSER
from backend.database.embedded.programs import (
    OLDEST_MAJOR,
    Account,
    Programs,
    find_programs,
    prepare_programs,
    service_account,
)
from backend.database.sessions import APPLICATION, OWNER
from backend.errors import BackupError
from backend.evidence_store import EvidenceStore, ObjectKind, sha256_of
from backend.services.integrity.backups import DUMP, restore_backup, take_backup
from tests.backend.databases import A_TEMPLATE, A_USER, Database
from theatre.engine.canonical_json import sha256_hex

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


AT = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
THEATRE = "018f0000-0000-7000-8000-000000000002"
VERSIONS = installed()
PAIRS = sorted(
    {
        *((major, major) for major in VERSIONS),
        (min(VERSIONS), max(VERSIONS)),
        (max(VERSIONS), min(VERSIONS)),
    }
)
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[int, VersionServer]]:
    with contextlib.ExitStack() as stack:
        yield {
            major: stack.enter_context(server_of(programs)) for major, programs in VERSIONS.items()
        }


def everything(database: Database) -> dict[str, list[str]]:
    """Return every row of every table, as the server writes it."""
    return {
        name: [
            str(row["whole"])
            for row in database.rows(f"SELECT t::text AS whole FROM {name} t ORDER BY 1")  # noqa: S608 - of the catalogue
        ]
        for name in (row["tablename"] for row in database.rows(TABLES))
    }


def filled(database: Database, store: EvidenceStore, folder: Path) -> None:
    migrations.upgrade(database.owner)
    database.add("users", {**A_USER, "username": "Ada \\. \u2028 \N{PILE OF POO}"})
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE)
    folder.write_bytes(b'{"episode_id":"one"}\n')
    store.put(ObjectKind.DATASETS, folder)


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda major: f"{major}")
def test_a_backup_of_one_version_is_the_same_database_on_another(
    servers: dict[int, VersionServer], tmp_path: Path, old: int, new: int
) -> None:
    assert (servers[old].major(), servers[new].major()) == (old, new)
    assert old >= OLDEST_MAJOR
    source = servers[old].database(f"from_{old}_for_{new}")
    target = servers[new].database(f"to_{new}_from_{old}")
    store, other = EvidenceStore(None, tmp_path / "one"), EvidenceStore(None, tmp_path / "two")
    filled(source, store, tmp_path / "data")
    backup = tmp_path / "backup"
    take_backup(source.owner, store, backup, at=AT)

    # A dump whose last rows are cut off leaves nothing, whatever the manifest says of it.
    whole = (backup / DUMP).read_bytes()
    manifest = (backup / "backup.json").read_text()
    (backup / DUMP).write_bytes(whole[:-20])
    (backup / "backup.json").write_text(
        manifest.replace(sha256_hex(whole), sha256_of(backup / DUMP))
    )
    with pytest.raises(BackupError):
        restore_backup(target.owner, other, backup)
    assert target.rows(TABLES) == []

    (backup / DUMP).write_bytes(whole)
    (backup / "backup.json").write_text(manifest)
    restore_backup(target.owner, other, backup)
    assert everything(target) == everything(source)
    migrations.check(target.owner)
    with target.connected(APPLICATION) as connection:
        connection.execute("SELECT * FROM theatres")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("DELETE FROM theatres")
