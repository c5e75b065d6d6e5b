"""Each guard matters by itself: what comes in as soon as one of them is taken away.

They are taken out of a test's own database; the code that runs is that of the service.
"""

import pytest
from psycopg import errors
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import OWNER
from backend.jobs.queue import queue_run, rescue_lost_runs
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import StoredTheatre, claim_run
from backend.runtime import now
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.theatre.files.journal_conformance import THEATRE_ID, content, remark, result
from theatre.engine.errors import JournalError, StateConflictError

NO_FENCE = """
    CREATE FUNCTION keep_the_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.run_epoch := OLD.run_epoch; RETURN NEW; END $$;
    CREATE TRIGGER keep_the_epoch BEFORE UPDATE ON theatres
        FOR EACH ROW EXECUTE FUNCTION keep_the_epoch()
"""
"""Whoever takes a run up has the epoch of whoever had it before."""
NO_KEY = "ALTER TABLE theatre_episode_scores DROP CONSTRAINT pk_theatre_episode_scores"
COPY_A_RESULT = "INSERT INTO theatre_episode_scores SELECT * FROM theatre_episode_scores"
LEASE_SECONDS = 20.0


@pytest.fixture
def theatre(database: Database) -> Database:
    return with_a_theatre(database)


def with_a_theatre(database: Database) -> Database:
    """Add a theatre whose commitment is stored."""
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID, **COMMITMENT)
    return database


async def claimed(engine: AsyncEngine) -> StoredTheatre:
    """Take the run up as a worker does."""
    async with engine.begin() as connection:
        job_id = await queue_run(connection, THEATRE_ID)
        stored = await claim_run(connection, THEATRE_ID, job_id=job_id, at=now())
    assert stored is not None
    return stored


async def taken_up(engine: AsyncEngine) -> PostgresRunJournal:
    """Take the run up, and return what its worker writes to."""
    return PostgresRunJournal(engine, THEATRE_ID, epoch=(await claimed(engine)).run_epoch)


async def one_after_another(engine: AsyncEngine) -> tuple[PostgresRunJournal, PostgresRunJournal]:
    """Have a run lose its worker, and return what that one and the next one write to."""
    paused = await taken_up(engine)
    async with engine.begin() as connection:
        # No worker that is heard of has its job.
        assert await rescue_lost_runs(connection, lease_seconds=LEASE_SECONDS) == [THEATRE_ID]
    return paused, await taken_up(engine)


def test_with_the_fence_a_worker_that_comes_back_records_nothing(theatre: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        paused, present = await one_after_another(engine)
        with pytest.raises(StateConflictError, match="another worker has taken it up"):
            await paused.append([result(1)], [remark(1)])
        await present.append([result(1)], [remark(1)])
        results, entries = await content(present)
        assert (results, len(entries)) == ([result(1)], 1)

    theatre.play(scene)


def test_without_the_fence_it_spoils_the_run_of_the_one_that_has_it(theatre: Database) -> None:
    with theatre.connected(OWNER) as connection:
        connection.execute(NO_FENCE.encode())

    async def scene(engine: AsyncEngine) -> None:
        paused, present = await one_after_another(engine)
        await paused.append([result(1)], [remark(1)])
        with pytest.raises(JournalError, match="expected episode 1 once in the journal"):
            await present.append([result(1)], [remark(1)])

    theatre.play(scene)


def test_the_key_alone_keeps_a_result_from_being_recorded_twice(theatre: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        journal = await taken_up(engine)
        await journal.append([result(1)], [remark(1)])
        # Somebody who asks neither journal nor fence: an older release, or a hand.
        with theatre.connected(SUPERUSER) as connection:
            with pytest.raises(errors.UniqueViolation, match="pk_theatre_episode_scores"):
                connection.execute(COPY_A_RESULT)
            assert (await content(journal))[0] == [result(1)]
            connection.execute(NO_KEY)
            connection.execute(COPY_A_RESULT)
        assert (await content(journal))[0] == [result(1), result(1)]

    theatre.play(scene)
