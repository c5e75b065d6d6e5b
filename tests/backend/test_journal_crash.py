"""What a journal acknowledged outlives a kill -9 of its writer and of PostgreSQL."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import APPLICATION, OWNER
from backend.repositories.run_journal import PostgresRunJournal
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.backend.embedded_home import EmbeddedHome
from tests.backend.journal_writer import BATCH
from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.files.journal_conformance import THEATRE_ID, content, result
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodeResult

WRITER = Path(__file__).with_name("journal_writer.py")
ACKNOWLEDGED_BEFORE_THE_KILL = 20


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EmbeddedHome]:
    made = EmbeddedHome(tmp_path / "home")
    yield made
    made.end()


def database_of(server: EmbeddedServer) -> Database:
    return Database(
        application=server.address(APPLICATION),
        owner=server.address(OWNER),
        superuser=server.address(SUPERUSER),
    )


def held_by(database: Database) -> tuple[list[EpisodeResult], list[JsonObject]]:
    async def read() -> tuple[list[EpisodeResult], list[JsonObject]]:
        engine = database.engine()
        try:
            return await content(PostgresRunJournal(engine, THEATRE_ID))
        finally:
            await engine.dispose()

    return asyncio.run(read())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("killed", ["the writer", "PostgreSQL", "both"])
def test_each_batch_that_was_acknowledged_is_whole_and_in_the_chain(
    home: EmbeddedHome, killed: str
) -> None:
    with EmbeddedServer(home.home) as server:
        migrations.upgrade(server.address(OWNER))
        database = database_of(server)
        database.add("users", A_USER)
        database.add("theatre_templates", A_TEMPLATE)
        database.add_theatre(THEATRE_ID, **COMMITMENT)
        with subprocess.Popen(
            [sys.executable, WRITER, database.application, THEATRE_ID],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        ) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(ACKNOWLEDGED_BEFORE_THE_KILL)]
            if killed != "PostgreSQL":
                home.kill(writer.pid)
            if killed != "the writer":
                home.kill(*home.processes())
            said += writer.stdout.readlines()
        server.start()
        results, entries = held_by(database)

    acknowledged = int(said[-1])
    assert acknowledged >= ACKNOWLEDGED_BEFORE_THE_KILL * BATCH
    assert results == [result(seq) for seq in range(1, len(results) + 1)]
    # At most the batch that was under way may be there without an answer, and only as a whole.
    assert len(results) in {acknowledged, acknowledged + BATCH}
    assert len(entries) * BATCH == len(results)
    verify_chain(entries, theatre_id=THEATRE_ID)
