"""A worker that dies at a named point, before or after it: another one goes on from there.

What a journal acknowledged outlives a kill -9 of its writer and of PostgreSQL."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from tests.backend.log_rows import await_logged, record_of_rows
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_lost_workers import Company, a_company, assert_whole
from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.files.journal_conformance import THEATRE_ID, content, result
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodeResult

EPISODES = 3
# In the order in which a run comes by.
POINTS = (
    *("claim", "queued", "placed", "signed", "activated", "invoke", "batch", "seal", "keep"),
    *("sealed", "certificate", "resolved", "publish", "archived"),
)
Count = Callable[[Company], int]


def rows(query: str, *values: str) -> Count:
    return lambda company: int(company.database.rows(query, *values)[0]["count"])


def files(pattern: str) -> Count:
    return lambda company: len(list((company.home / "evidence").glob(pattern)))


def events(event_type: str) -> Count:
    return rows("SELECT count(*) FROM theatre_audit_events WHERE event_type = %s", event_type)


LEFT: dict[str, tuple[Count, int]] = {
    "claim": (rows("SELECT count(*) FROM theatres WHERE run_status = 'running'"), 1),
    "queued": (rows("SELECT count(*) FROM log_queue"), 1),
    "placed": (rows("SELECT count(*) FROM log_entries"), 1),
    "signed": (rows("SELECT count(*) FROM log_checkpoints"), 1),
    "activated": (events("activated"), 1),
    "invoke": (lambda company: len(company.stage.calls), 1),
    "batch": (rows("SELECT count(*) FROM theatre_episode_scores"), EPISODES),
    "seal": (files("theatres/*/evidence_bundle_*"), 1),
    "keep": (files("bundles/*"), 1),
    "sealed": (events("sealed"), 1),
    "certificate": (rows("SELECT count(*) FROM theatre_certificates"), 1),
    "resolved": (events("resolved"), 1),
    "publish": (files("exports/*"), 1),
    "archived": (events("archived"), 1),
}
"""What each point leaves behind, and how much of it one theatre makes."""


def forget_losses(database: Database) -> None:
    """Each crash by itself: how many a run survives in a row is another test's."""
    with database.connected(OWNER) as connection:
        connection.execute("UPDATE theatres SET lost_workers = 0")


def test_a_crash_at_any_point_is_gone_on_from(database: Database, tmp_path: Path) -> None:
    stage = sums_stage(tmp_path / "stage", sums(EPISODES))
    with a_company(database, tmp_path, stage, ECHELON_RUNS_AT_A_TIME="1") as company:
        worker = company.pool.start()
        (undisturbed,) = company.ask_for_runs(1)
        company.await_ended(1)
        await_logged(database, 2)
        company.pool.stop(worker)
        company.await_death_of(worker)
        paths = company.ask_for_runs(3)
        for point in POINTS:
            count, of_one = LEFT[point]
            for moment, left in (("before", 0), ("after", of_one)):
                forget_losses(database)
                there = count(company)
                company.await_death_of(company.pool.fork(f"{moment}:{point}"))
                company.pool.miss()
                assert (point, moment, count(company) - there) == (point, moment, left)
        company.pool.start()
        company.await_ended(1 + len(paths))
        theatres = [undisturbed, *paths]
        assert_whole(company, theatres, episodes=EPISODES)
        await_logged(database, 2 * len(theatres))
        record = record_of_rows(database)
        assert {one.theatre_id for one in record.commitments.values() if not one.is_open} == {
            path.rpartition("/")[2] for path in theatres
        }
        # Each sealed once and exported once, whatever died behind that: both are named by their
        # bytes, which have the moment in them.
        for kept in ("bundles/*", "exports/*"):
            assert files(kept)(company) == len(theatres), kept


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
