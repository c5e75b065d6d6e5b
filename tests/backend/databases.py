"""Databases for tests: one server a session, one database a worker, emptied after each test.

Each is copied from a migrated one. A test that changed more than rows leaves its database to be
dropped, and the next test has a new copy.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER, Cluster, hold_lock, is_held
from backend.database.embedded.programs import service_account
from backend.database.sessions import APPLICATION, OWNER, application_engine
from theatre.engine.canonical_json import canonical_bytes, sha256_hex

T = TypeVar("T")
TEMPLATE = "migrated"
USER_ID = "018f0000-0000-7000-8000-000000000001"
HASH = "ab" * 32
TEMPLATE_DOCUMENT = canonical_bytes({"theatre_id": "a_template_v1"})

A_USER: Mapping[str, Any] = {
    "id": USER_ID,
    "username": "ada",
    "email": "ada@example.org",
    "password_hash": "none",
    "created_at": "2026-11-21T12:00:00Z",
}
A_TEMPLATE: Mapping[str, Any] = {
    "sha256": sha256_hex(TEMPLATE_DOCUMENT),
    "template_id": "a_template_v1",
    "template_family": "PRODUCT",
    "execution_path": "replay",
    "display_name": "A template",
    "schema_version": "2.1.0",
    "template_json": TEMPLATE_DOCUMENT.decode(),
    "document": TEMPLATE_DOCUMENT,
    "content_hash": HASH,
    "created_at": "2026-11-21T12:00:00Z",
}
COMMITMENT: Mapping[str, Any] = {
    "commitment_hash": HASH,
    "committed_at": "2026-11-21T12:00:01Z",
    "version_pins": "{}",
    "dataset_hashes": "{}",
    "receipt": b"{}",
}


_ROWS_IN = """
    SELECT format('SELECT %L WHERE EXISTS (SELECT FROM %s)', oid::regclass, oid::regclass) AS query
    FROM pg_class WHERE relkind = 'r' AND oid >= 16384
"""
_OBJECTS = " UNION ALL ".join(
    f"SELECT '{catalog}:' || {key} || ':' || xmin AS object FROM {catalog} WHERE {own}"  # noqa: S608
    for catalog, key, own in (
        *((f"pg_{kind}", "oid", "oid >= 16384") for kind in ("class", "trigger", "constraint")),
        *((f"pg_{kind}", "oid", "oid >= 16384") for kind in ("proc", "type", "policy", "rewrite")),
        ("pg_attribute", "attrelid || '.' || attnum", "attrelid >= 16384"),
        ("pg_namespace", "oid", "true"),
        ("pg_database", "oid", "datname = current_database()"),
        ("alembic_version", "version_num", "true"),
    )
)
"""Whatever defines or changes an object gives its row in the catalogue another transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One migrated database, by its addresses."""

    application: str
    owner: str
    superuser: str

    def engine(self) -> AsyncEngine:
        """Return an engine of the service; who asks disposes of it."""
        return application_engine(self.application, pool_size=4)

    def play(self, scene: Callable[[AsyncEngine], Awaitable[T]]) -> T:
        """Return what a scene with an engine of the service came to."""

        async def with_engine() -> T:
            engine = self.engine()
            try:
                return await scene(engine)
            finally:
                await engine.dispose()

        return asyncio.run(with_engine())

    @contextlib.contextmanager
    def connected(self, role: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """Connect as the application, the owner of the tables, or the superuser."""
        addresses = {APPLICATION: self.application, OWNER: self.owner, SUPERUSER: self.superuser}
        with psycopg.connect(addresses[role], autocommit=True, row_factory=dict_row) as connection:
            yield connection

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Insert a row as the application."""
        columns = sql.SQL(", ").join(map(sql.Identifier, row))
        values = sql.SQL(", ").join(map(sql.Placeholder, row))
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})")
        with self.connected(APPLICATION) as connection:
            connection.execute(statement.format(sql.Identifier(table), columns, values), dict(row))

    def add_theatre(self, theatre_id: str, **changes: Any) -> None:  # noqa: ANN401 - columns
        """Insert a DRAFT of the template, once its user and its template are there."""
        row = {
            "id": theatre_id,
            "user_id": USER_ID,
            "template_id": A_TEMPLATE["template_id"],
            "template_sha256": A_TEMPLATE["sha256"],
            "construct_id": "a-construct",
            "state": "DRAFT",
            "created_at": "2026-11-21T12:00:00Z",
            "updated_at": "2026-11-21T12:00:00Z",
        }
        self.add("theatres", {**row, **changes})

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Return what a query finds, asked as the owner."""
        with self.connected(OWNER) as connection:
            return connection.execute(query.encode(), values or None).fetchall()


@contextlib.contextmanager
def shared_server(home: Path) -> Iterator[EmbeddedServer]:
    """Use the one server of a test session; the last worker to leave removes its data."""
    server = EmbeddedServer(home)
    try:
        with server:
            yield server
    finally:
        state = home / "postgres"
        with hold_lock(state / "start.lock"):
            if not is_held(state / "alive.lock"):
                data = Cluster.below(state, service_account()).data
                shutil.rmtree(data, ignore_errors=True)
                if not data.is_relative_to(home):
                    data.parent.rmdir()


def migrated_template(server: EmbeddedServer, home: Path) -> str:
    """Return a database to copy from, migrated by the first worker that asks."""
    with (
        hold_lock(home / "template.lock"),
        psycopg.connect(server.address(SUPERUSER, "postgres"), autocommit=True) as connection,
    ):
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, [TEMPLATE]).fetchone() is None:
            # Nothing here has to outlive a power cut: the server is removed with the session.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
            draft = f"{TEMPLATE}_draft"
            connection.execute(f"DROP DATABASE IF EXISTS {draft}".encode())
            connection.execute(f"CREATE DATABASE {draft} OWNER {OWNER}".encode())
            migrations.upgrade(server.address(OWNER, draft))
            connection.execute(f"ALTER DATABASE {draft} RENAME TO {TEMPLATE}".encode())
    return TEMPLATE


@contextlib.contextmanager
def made(server: EmbeddedServer, name: str, *, template: str) -> Iterator[Database]:
    """Make a database for one test and drop it, whoever is still connected."""
    with psycopg.connect(server.address(SUPERUSER, "postgres"), autocommit=True) as connection:
        # Nothing of it has to go through the log of a server that is removed with the session.
        created = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy OWNER {OWNER}"
        connection.execute(created.encode())
        try:
            yield Database(
                application=server.address(APPLICATION, name),
                owner=server.address(OWNER, name),
                superuser=server.address(SUPERUSER, name),
            )
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class EmptiedDatabase:
    """The database of one worker, and what of it no test may change."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self._stack = contextlib.ExitStack()
        self.database = self._stack.enter_context(made(server, name, template=TEMPLATE))
        # Kept, for a new connection has to read the catalogue first.
        self._one = self._stack.enter_context(self.database.connected(SUPERUSER))
        self._one.prepare_threshold = 1
        queries = [row["query"] for row in self._one.execute(_ROWS_IN.encode())]
        self._which_are_filled = " UNION ALL ".join(queries).encode()
        self._objects, self._filled = _objects(self._one), self._filled_now()

    def is_emptied(self) -> bool:
        """End who is still connected and delete every row; False where that is not enough."""
        with contextlib.suppress(psycopg.OperationalError):
            self._one.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if _objects(self._one) == self._objects:
                self._one.execute("SET session_replication_role = replica")
                for table in self._filled_now() - self._filled:
                    self._one.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - of the catalogue
                self._one.execute(
                    "SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false)"
                    " FROM pg_sequences WHERE last_value IS NOT NULL"
                )
                return True
        return False

    def _filled_now(self) -> set[str]:
        found = self._one.execute(self._which_are_filled)
        return {str(next(iter(row.values()))) for row in found}

    def drop(self) -> None:
        """Leave the next test a new one."""
        self._stack.close()


def _objects(connection: psycopg.Connection[dict[str, Any]]) -> list[str]:
    return sorted(row["object"] for row in connection.execute(_OBJECTS.encode()))
