"""Backups: all rows of the database and all objects, in one folder, and back.

A backup needs no pause: the rows are of one moment, and what they name was durable before and is
never changed after. Everything here blocks.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from backend.database import migrations
from backend.database.embedded.programs import find_programs
from backend.errors import BackupError, EvidenceDamagedError
from backend.evidence_store import EvidenceStore, ObjectKind, sha256_of
from theatre.engine.canonical_json import parse_object
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import ParseError
from theatre.files.durable import replace_durably

DUMP = "database.dump"
MANIFEST = "backup.json"
_FORMAT = 1
_TIMEOUT = re.compile(rb"SET ([a-z_]+_timeout) = 0;\n")
_IF_KNOWN = b"SELECT set_config(name, '0', false) FROM pg_settings WHERE name = '%b';\n"
_END_OF_TIMEOUTS = b"SET client_encoding"
_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


class Backup(NamedTuple):
    """What a backup holds."""

    taken_at: str
    revision: str
    database_sha256: str
    objects: int
    bytes: int
    damaged: tuple[str, ...]
    """Keys of objects that are missing in it: the store did not have their bytes any more."""


def take_backup(address: str, store: EvidenceStore, folder: Path, *, at: datetime) -> Backup:
    """Copy everything into a new or empty folder; `address` is of the owner of the tables.

    BackupError where it cannot be done, EvidenceStoreError where the store does not answer.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BackupError(f"expected an empty folder to back up into, got {folder} with files")
    folder.mkdir(parents=True, exist_ok=True)
    revision = migrations.current_revision(address) or "none"
    # The rows first: the objects that they name exist already, and stay.
    _dump_rows(folder / DUMP, address)
    total = count = 0
    damaged: list[str] = []
    for kind in ObjectKind:
        for one in store.list_objects(kind):
            try:
                store.copy_out(kind, one.name, folder / "objects" / kind / one.name)
            except EvidenceDamagedError:
                damaged.append(f"{kind}/{one.name}")
            else:
                total, count = total + one.size_bytes, count + 1
    backup = Backup(
        taken_at=format_rfc3339(at),
        revision=revision,
        database_sha256=sha256_of(folder / DUMP),
        objects=count,
        bytes=total,
        damaged=tuple(sorted(damaged)),
    )
    # Last: a folder without a manifest is no backup.
    document = {"format": _FORMAT, **backup._asdict()}
    replace_durably(folder / MANIFEST, json.dumps(document, indent=2).encode())
    return backup


def restore_backup(address: str, store: EvidenceStore, folder: Path) -> Backup:
    """Bring a backup into an empty database and a store; to the newest revision, then.

    Objects that the store has already are left. BackupError for a folder that is no whole backup,
    and for a database that is not empty: nothing is changed then.
    """
    backup = _read(folder)
    with psycopg.connect(address) as connection:
        row = connection.execute(_TABLES).fetchone()
    if row is None or row[0]:
        raise BackupError("expected an empty database to restore into, got one with tables")
    # The objects first: no row must name a missing object.
    count = 0
    for kind in ObjectKind:
        for path in (folder / "objects" / kind).glob("*"):
            if sha256_of(path) != path.name:
                raise BackupError(f"expected {kind}/{path.name} in the backup, got other bytes")
            store.put(kind, path)
            count += 1
    if count != backup.objects:
        raise BackupError(f"expected {backup.objects} objects in the backup, got {count}")
    _restore_rows(folder / DUMP, address)
    migrations.upgrade(address)
    return backup


def _read(folder: Path) -> Backup:
    try:
        document = parse_object((folder / MANIFEST).read_bytes())
        if document.pop("format", None) != _FORMAT or set(document) != set(Backup._fields):
            raise BackupError(f"expected a backup of format {_FORMAT} in {folder}, got another")
    except (OSError, ParseError) as error:
        raise BackupError(f"expected a whole backup in {folder}, got none") from error
    members = cast("dict[str, Any]", document)
    backup = Backup(**{**members, "damaged": tuple(members["damaged"])})
    found = sha256_of(folder / DUMP) if (folder / DUMP).is_file() else "none"
    if found != backup.database_sha256:
        raise BackupError(f"expected the dump {backup.database_sha256}, got {found}")
    return backup


def _dump_rows(dump: Path, address: str) -> None:
    target, environment = _connection(address)
    command = ["pg_dump", target, "--format=custom", "--no-owner", f"--file={dump}"]
    with tempfile.TemporaryFile() as said:
        with _start(command, environment, stderr=said) as dumping:
            pass
        _require_success(said, dumping)


def _restore_rows(dump: Path, address: str) -> None:
    """Bring all of a dump into a database, or nothing of it.

    `pg_restore` itself would switch off each timeout that its own version has, also where the
    server is older and does not know one: `psql` gets the script, in which the server is asked.
    """
    target, environment = _connection(address)
    reading = ["pg_restore", "--no-owner", "--file=-", str(dump)]
    writing = ["psql", target, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    with tempfile.TemporaryFile() as said:
        with (
            _start(reading, environment, stdout=subprocess.PIPE, stderr=said) as script,
            _start(
                writing, environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
            ) as psql,
        ):
            _feed(script, psql)
        _require_success(said, psql, script)


def _feed(script: subprocess.Popen[bytes], psql: subprocess.Popen[bytes]) -> None:
    lines, commands = cast("IO[bytes]", script.stdout), cast("IO[bytes]", psql.stdin)
    # Where psql has ended early, its own words say why.
    with contextlib.suppress(BrokenPipeError), commands:
        commands.write(b"BEGIN;\n")
        for line in lines:
            timeout = _TIMEOUT.fullmatch(line)
            commands.write(line if timeout is None else _IF_KNOWN % timeout[1])
            if line.startswith(_END_OF_TIMEOUTS):
                break
        shutil.copyfileobj(lines, commands)
        # A script that was cut short must leave nothing.
        if script.wait() == 0:
            commands.write(b"COMMIT;\n")


def _connection(address: str) -> tuple[str, dict[str, str]]:
    """Return an argument and an environment: the password is in the latter, not in argv."""
    parts: dict[str, Any] = conninfo_to_dict(address)
    password = str(parts.pop("password", "") or "")
    known = {"PGPASSWORD": password} if password else {}
    return f"--dbname={make_conninfo(**parts)}", {**os.environ, **known, "LC_ALL": "C"}


def _start(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: IO[bytes],
) -> subprocess.Popen[bytes]:
    """Start a PostgreSQL program of those that belong together."""
    path = find_programs().bin / command[0]
    try:
        return subprocess.Popen(  # noqa: S603 - PostgreSQL's own program
            [path, *command[1:]], env=environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
    except OSError as error:
        raise BackupError(f"expected the program {path}, got {error.strerror}") from error


def _require_success(said: IO[bytes], *ended: subprocess.Popen[bytes]) -> None:
    if not any(process.returncode for process in ended):
        return
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").strip().splitlines() or ["nothing"]
    # What follows the error are its details, and what it broke.
    reason = next((line for line in lines if "error:" in line.lower()), lines[-1])
    raise BackupError(f"expected PostgreSQL's programs to succeed, got: {reason:.300}")
