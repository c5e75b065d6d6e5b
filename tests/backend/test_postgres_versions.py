"""A backup is restored on each PostgreSQL that the service works with, and between them."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from psycopg import errors

from backend.database import migrations
from backend.database.embedded.programs import OLDEST_MAJOR
from backend.database.sessions import APPLICATION
from backend.errors import BackupError
from backend.evidence_store import EvidenceStore, ObjectKind, sha256_of
from backend.services.integrity.backups import DUMP, restore_backup, take_backup
from tests.backend.databases import A_TEMPLATE, A_USER, Database
from tests.backend.postgres_versions import VersionServer, installed, server_of
from theatre.engine.canonical_json import sha256_hex

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
