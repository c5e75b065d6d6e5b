"""One embedded server for all workers, an empty database for each test, and a service of sums."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.database.embedded import EmbeddedServer
from backend.main import create_app
from tests.backend.databases import (
    Database,
    EmptiedDatabase,
    made,
    migrated_template,
    shared_server,
)
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage

_numbers = itertools.count()


@pytest.fixture(scope="session")
def database_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-database"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture(scope="session")
def database_server(database_home: Path) -> Iterator[EmbeddedServer]:
    with shared_server(database_home) as server:
        yield server


@pytest.fixture
def empty_database(database_server: EmbeddedServer) -> Iterator[Database]:
    """A database that no migration has touched."""
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    with made(database_server, name, template="template0") as database:
        yield database


@pytest.fixture(scope="session")
def emptied_databases() -> Iterator[list[EmptiedDatabase]]:
    """The databases that this worker uses again, if it has some."""
    kept: list[EmptiedDatabase] = []
    yield kept
    for one in kept:
        one.drop()


def _lent(
    database_server: EmbeddedServer, database_home: Path, emptied_databases: list[EmptiedDatabase]
) -> Iterator[Database]:
    """A database at the newest revision, empty."""
    if not emptied_databases:
        migrated_template(database_server, database_home)
        name = f"test_{os.getpid()}_{next(_numbers)}"
        emptied_databases.append(EmptiedDatabase(database_server, name))
    kept = emptied_databases.pop()
    yield kept.database
    if kept.is_emptied():
        emptied_databases.append(kept)
    else:
        kept.drop()


database = pytest.fixture(_lent)
module_database = pytest.fixture(scope="module")(_lent)


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    """Four sums; a file with another theatre has a stage of its own."""
    return sums_stage(tmp_path / "stage", sums(4))


@pytest.fixture
def client(database: Database, tmp_path: Path, stage: SumsStage) -> Iterator[Client]:
    """A client without an account, of a service of the test's own that reads the stage."""
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="module")
def anybody(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A client without an account, of a service that runs nothing, for all tests of a file."""
    home = tmp_path_factory.mktemp("home")
    with served(create_app(settings_for(module_database, home, worker_in_api=False))) as client:
        yield client


@pytest.fixture
def ada(client: Client) -> Client:
    return client.registered("ada")
