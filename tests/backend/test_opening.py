"""From settings to a database: the embedded one by itself, an operator's as it is or migrated."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from backend.database.embedded import EmbeddedServer
from backend.database.migrations import head_revision, open_database
from backend.database.sessions import APPLICATION
from backend.errors import MigrationError
from backend.settings import Settings
from tests.backend.databases import Database, made
from tests.backend.embedded_home import EmbeddedHome
from tests.theatre.echelon_process import until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EmbeddedHome]:
    made = EmbeddedHome(tmp_path / "home")
    yield made
    made.end()


def who_and_where(address: str) -> tuple[object, ...] | None:
    with psycopg.connect(address) as connection:
        query = "SELECT current_user::text, version_num FROM alembic_version"
        return connection.execute(query).fetchone()


def operators(database: Database, *, migrate: bool) -> Settings:
    return Settings(
        database_url=SecretStr(database.application),
        migration_url=SecretStr(database.owner) if migrate else None,
    )


def test_without_an_address_the_embedded_database_is_migrated_and_stopped_at_the_end(
    home: EmbeddedHome,
) -> None:
    for _ in range(2):
        with open_database(Settings(home=home.home)) as address:
            assert who_and_where(address) == (APPLICATION, head_revision())
        assert home.processes() == []


@pytest.mark.parametrize(
    "which", [lambda home: home.postmaster, EmbeddedHome.keeper], ids=["PostgreSQL", "its keeper"]
)
def test_an_embedded_database_that_is_killed_is_started_again_by_the_process_that_uses_it(
    home: EmbeddedHome, which: Callable[[EmbeddedHome], int]
) -> None:
    def began() -> object:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(address) as connection:
            return connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        return None

    with open_database(Settings(home=home.home)) as address:
        first = began()
        home.kill(which(home))
        until(lambda: began() not in {first, None}, "another server")
        assert who_and_where(address) == (APPLICATION, head_revision())
    assert home.processes() == []


def test_an_operators_database_is_migrated_by_its_owner(empty_database: Database) -> None:
    with open_database(operators(empty_database, migrate=True)) as address:
        assert address == empty_database.application
        assert who_and_where(address) == (APPLICATION, head_revision())


@pytest.mark.parametrize("migrate", [True, False])
def test_a_database_in_another_encoding_is_refused_in_one_sentence(
    database_server: EmbeddedServer, *, migrate: bool
) -> None:
    form = "template0 ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
    with (
        made(database_server, "in_ascii", template=form) as database,
        pytest.raises(MigrationError, match=r"in UTF8, got one in SQL_ASCII: create it with"),
        open_database(operators(database, migrate=migrate)),
    ):
        pass


def test_a_migrated_database_needs_no_owner(database: Database) -> None:
    with open_database(operators(database, migrate=False)) as address:
        assert who_and_where(address) == (APPLICATION, head_revision())


def test_a_database_at_another_revision_is_refused(empty_database: Database) -> None:
    with (
        pytest.raises(MigrationError, match=r"^expected a database at revision \d+, got an empty"),
        open_database(operators(empty_database, migrate=False)),
    ):
        pass
