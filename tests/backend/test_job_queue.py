"""Jobs are queued with what they are for, and runs that lost theirs get another."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.sessions import APPLICATION
from backend.jobs.queue import drop_leftovers, end_waiting_at, queue_run, rescue_lost_runs
from backend.repositories.theatre_runs import claim_run
from backend.runtime import now
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database

THEATRE_ID = "018f0000-0000-7000-8000-00000000000a"
LEASE_SECONDS = 20.0
RUN = "SELECT run_status, run_epoch, lost_workers FROM theatres"
JOBS = "SELECT task_name, queue_name, args, status::text FROM procrastinate_jobs ORDER BY id"
A_RUN = {
    "task_name": "run_theatre",
    "queue_name": "runs",
    "args": {"theatre_id": THEATRE_ID},
    "status": "todo",
}
T = TypeVar("T")


@pytest.fixture
def theatre(database: Database) -> Database:
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID, **COMMITMENT)
    return database


def within(database: Database, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async def scene() -> T:
        engine = database.engine()
        try:
            async with engine.begin() as connection:
                return await work(connection)
        finally:
            await engine.dispose()

    return asyncio.run(scene())


def queued(database: Database) -> int:
    return within(database, lambda connection: queue_run(connection, THEATRE_ID))


def execute(database: Database, statement: str, *values: object) -> None:
    with database.connected(APPLICATION) as connection:
        connection.execute(statement.encode(), values)


def taken_up(database: Database, *, heard_of: str) -> int:
    """Queue a run and have a worker hold it that was last heard of so long ago."""
    job_id = queued(database)
    execute(
        database,
        "WITH worker AS (INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - %s::interval) RETURNING id)"
        " UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM worker)",
        heard_of,
    )
    within(database, lambda one: claim_run(one, THEATRE_ID, job_id=job_id, at=now()))
    return job_id


def rescued(database: Database) -> list[str]:
    async def rescue(connection: AsyncConnection) -> list[str]:
        lost = await rescue_lost_runs(connection, lease_seconds=LEASE_SECONDS)
        await drop_leftovers(connection, lease_seconds=LEASE_SECONDS)
        return list(lost)

    return within(database, rescue)


def test_a_job_is_queued_with_its_run_or_not_at_all(theatre: Database) -> None:
    async def fails(connection: AsyncConnection) -> None:
        await queue_run(connection, THEATRE_ID)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        within(theatre, fails)
    assert theatre.rows(JOBS) == []
    assert theatre.rows(RUN) == [{"run_status": None, "run_epoch": 0, "lost_workers": 0}]
    queued(theatre)
    assert theatre.rows(JOBS) == [A_RUN]
    assert theatre.rows(RUN) == [{"run_status": "queued", "run_epoch": 0, "lost_workers": 0}]


def test_only_the_job_that_the_run_waits_for_takes_it_up_and_only_once(theatre: Database) -> None:
    first, second = queued(theatre), queued(theatre)

    def claims(job_id: int) -> bool:
        claimed = within(theatre, lambda one: claim_run(one, THEATRE_ID, job_id=job_id, at=now()))
        return claimed is not None

    assert [claims(first), claims(second), claims(second)] == [False, True, False]
    assert theatre.rows(RUN) == [{"run_status": "running", "run_epoch": 1, "lost_workers": 0}]


def test_a_run_whose_worker_is_heard_of_or_whose_job_waits_is_left(theatre: Database) -> None:
    queued(theatre)
    assert rescued(theatre) == []
    taken_up(theatre, heard_of="19 seconds")
    before = theatre.rows(JOBS)
    assert rescued(theatre) == []
    assert theatre.rows(JOBS) == before


def test_a_run_whose_worker_is_not_heard_of_is_taken_off_it_and_queued_anew(
    theatre: Database,
) -> None:
    taken_up(theatre, heard_of="21 seconds")
    assert rescued(theatre) == [THEATRE_ID]
    # Taken up in epoch 1, taken off in epoch 2.
    assert theatre.rows(RUN) == [{"run_status": "queued", "run_epoch": 2, "lost_workers": 1}]
    assert theatre.rows(JOBS) == [A_RUN]
    assert theatre.rows("SELECT id FROM procrastinate_workers") == []
    assert rescued(theatre) == []


def test_a_run_that_loses_one_worker_after_another_waits_for_a_drawn_while(
    theatre: Database,
) -> None:
    scheduled = "SELECT scheduled_at - now() AS wait FROM procrastinate_jobs"
    taken_up(theatre, heard_of="21 seconds")
    rescued(theatre)
    assert theatre.rows(scheduled) == [{"wait": None}]
    execute(theatre, "UPDATE theatres SET lost_workers = 3")
    execute(theatre, "DELETE FROM procrastinate_jobs")
    taken_up(theatre, heard_of="21 seconds")
    rescued(theatre)
    (row,) = theatre.rows(scheduled)
    assert row["wait"] < timedelta(seconds=3 * LEASE_SECONDS / 2)
    assert theatre.rows(RUN)[0]["lost_workers"] == 4
    assert rescued(theatre) == []


def test_a_clock_that_was_set_back_leaves_no_run_to_a_worker_or_a_moment_far_ahead(
    theatre: Database,
) -> None:
    taken_up(theatre, heard_of="-1 hour")
    assert rescued(theatre) == [THEATRE_ID]
    execute(theatre, "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 minute'")
    assert rescued(theatre) == []
    execute(theatre, "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 year'")
    assert rescued(theatre) == [THEATRE_ID]
    assert theatre.rows(RUN) == [{"run_status": "queued", "run_epoch": 3, "lost_workers": 1}]


@pytest.mark.parametrize("status", ["failed", "succeeded"])
def test_a_run_whose_job_has_ended_without_it_is_queued_anew(
    theatre: Database, status: str
) -> None:
    taken_up(theatre, heard_of="0 seconds")
    execute(theatre, "UPDATE procrastinate_jobs SET status = %s", status)
    assert rescued(theatre) == [THEATRE_ID]
    assert theatre.rows(RUN) == [{"run_status": "queued", "run_epoch": 2, "lost_workers": 1}]


def test_a_run_whose_job_was_lost_before_it_began_has_lost_no_worker(theatre: Database) -> None:
    queued(theatre)
    execute(theatre, "DELETE FROM procrastinate_jobs")
    assert rescued(theatre) == [THEATRE_ID]
    assert theatre.rows(RUN) == [{"run_status": "queued", "run_epoch": 1, "lost_workers": 0}]


def test_the_end_of_a_wait_that_a_worker_took_along_is_looked_at_again(theatre: Database) -> None:
    within(theatre, lambda one: end_waiting_at(one, THEATRE_ID, now()))
    execute(theatre, "UPDATE procrastinate_jobs SET status = 'doing'")
    assert rescued(theatre) == []
    assert theatre.rows(JOBS) == [{**A_RUN, "task_name": "end_waiting", "queue_name": "upkeep"}]


def test_the_application_may_use_the_queue_and_no_more(database: Database) -> None:
    granted: dict[str, Any] = {
        str(row["table_name"]): row["rights"]
        for row in database.rows(
            "SELECT table_name,"
            " array_agg(privilege_type::text ORDER BY privilege_type::text) AS rights"
            " FROM information_schema.role_table_grants WHERE grantee = 'echelon_app'"
            " AND starts_with(table_name, 'procrastinate_') GROUP BY 1"
        )
    }
    assert granted == {
        "procrastinate_events": ["INSERT", "SELECT"],
        "procrastinate_jobs": ["DELETE", "INSERT", "SELECT", "UPDATE"],
        "procrastinate_periodic_defers": ["DELETE", "INSERT", "SELECT"],
        "procrastinate_workers": ["DELETE", "INSERT", "SELECT"],
    }
