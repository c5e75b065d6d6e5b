"""Each guard matters by itself: what comes in as soon as one of them is taken away.

They are taken out of a test's own database; the code that runs is that of the service. Runs that
kill their workers are suspects, and others go on.
"""

from pathlib import Path

import pytest
from psycopg import errors
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import OWNER
from backend.jobs.queue import (
    MAX_LOST_WORKERS,
    SUSPECT_LOST_WORKERS,
    SUSPECTS,
    queue_run,
    rescue_lost_runs,
)
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import StoredTheatre, change_run, claim_run
from backend.runtime import now
from backend.services.runs.lease import RunMonitor
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_lost_workers import Company, a_company
from tests.backend.worker_pool import is_dead
from tests.theatre.conftest import episode
from tests.theatre.echelon_process import until
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


DOOM = "second gate"
NEXT_IN_LINE = """
    SELECT FROM procrastinate_jobs WHERE lock = %s AND status = 'todo' AND scheduled_at <= now()
"""


class Pair:
    """A theatre that kills its workers at its first episode, and one that only waits there."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self.doomed, self.innocent = company.ask_for_runs(2)
        company.stage.doom(_id(self.doomed))
        self._workers = [company.pool.fork()]

    def calls(self, path: str) -> int:
        """Return how often the first episode of a theatre was called."""
        called = [(theatre, number) for theatre, number, _ in self._company.stage.calls]
        return called.count((_id(path), 1))

    def were_both_called(self, times: int) -> bool:
        return self.calls(self.doomed) == self.calls(self.innocent) == times

    def let_it_kill(self) -> None:
        """Have the doomed run kill its worker, and start another one."""

        def has_killed() -> bool:
            self._company.stage.let_through(DOOM)
            return is_dead(self._workers[-1])

        until(has_killed, "the death of a worker")
        self._replace()

    def go_on_until(self, condition: str, *values: object) -> None:
        """Let everybody through, with a worker in place of each that dies, until rows are there."""

        def are_there() -> bool:
            self._company.stage.let_through()
            self._company.stage.let_through(DOOM)
            if is_dead(self._workers[-1]):
                self._replace()
            return bool(self._company.database.rows(condition, *values))

        until(are_there, condition)

    def _replace(self) -> None:
        self._company.pool.miss()
        self._workers.append(self._company.pool.fork())


def _id(path: str) -> str:
    return path.rpartition("/")[2]


def test_a_run_that_kills_its_workers_ends_as_failed_and_others_go_on(
    database: Database, tmp_path: Path
) -> None:
    first = episode(1, [1, 1], "kill the doomed")
    stage = sums_stage(tmp_path / "stage", [first, *sums(3)[1:]])
    with a_company(database, tmp_path, stage) as company:
        pair = Pair(company)
        for times in range(1, SUSPECT_LOST_WORKERS + 1):
            until(lambda times=times: pair.were_both_called(times), "both in one worker")  # type: ignore[misc]
            pair.let_it_kill()
        # From now on each is suspected. The next worker has room for two and takes up one of them.
        together = 2 * SUSPECT_LOST_WORKERS
        until(lambda: len(stage.calls) > together, "a suspect to be taken up")
        until(lambda: database.rows(NEXT_IN_LINE, SUSPECTS), "the time of the other one")
        assert len(stage.calls) == together + 1
        for losses in range(SUSPECT_LOST_WORKERS + 1, MAX_LOST_WORKERS):
            pair.go_on_until(
                "SELECT FROM theatres WHERE id = %s AND lost_workers >= %s",
                _id(pair.doomed),
                losses,
            )
        pair.go_on_until("SELECT FROM theatres WHERE run_status = 'failed'")
        pair.go_on_until("SELECT FROM theatres WHERE run_status = 'succeeded'")
        doomed = company.ada.get(pair.doomed).document
        assert (doomed["state"], doomed["outcome"], doomed["outcome_reason"]) == (
            "RESOLVED",
            "failed",
            "workers-lost",
        )
        assert "expected a worker to outlive the run, got 5 lost in a row" in doomed["error"]
        assert company.ada.get(pair.innocent).document["outcome"] == "certified"
        # The innocent lost the workers that it shared, and none after that.
        assert pair.calls(pair.doomed) == MAX_LOST_WORKERS
        assert pair.calls(pair.innocent) == SUSPECT_LOST_WORKERS + 1


def locks(database: Database) -> list[str | None]:
    return [row["lock"] for row in database.rows("SELECT lock FROM procrastinate_jobs")]


@pytest.mark.parametrize(("lost", "lock"), [(1, None), (2, SUSPECTS), (4, SUSPECTS), (5, None)])
def test_runs_that_lost_workers_are_queued_behind_each_other(
    database: Database, lost: int, lock: str | None
) -> None:
    async def scene(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            await change_run(connection, THEATRE_ID, lost_workers=lost)
            await queue_run(connection, THEATRE_ID)

    with_a_theatre(database).play(scene)
    assert locks(database) == [lock]


def test_a_suspect_is_cleared_by_what_it_records(database: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            await change_run(connection, THEATRE_ID, lost_workers=SUSPECT_LOST_WORKERS)
        stored = await claimed(engine)
        # The lease is so short that the row is asked each time.
        watch = RunMonitor(engine, stored, lease_seconds=0, is_draining=lambda: False)
        await watch.confirm_if_stale()
        assert locks(database) == [SUSPECTS]
        journal = PostgresRunJournal(engine, THEATRE_ID, epoch=stored.run_epoch)
        await journal.append([result(1)], [remark(1)])
        await watch.confirm_if_stale()
        assert locks(database) == [None]

    with_a_theatre(database).play(scene)
