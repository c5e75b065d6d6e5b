"""Jobs, put into the queue by the transaction that needs them done.

A theatre's row names the one job that its run waits for, or is held by, and so does the row of a
verification, of the reading of its ground truth: a job that none of them names has nothing to do.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from theatre.engine.canonical_json import JsonObject, canonical_json

RUNS = "runs"
INGESTIONS = "ingestions"
UPKEEP = "upkeep"
RUN_THEATRE = "run_theatre"
INGEST = "ingest"
END_WAITING = "end_waiting"
MAX_LOST_WORKERS = 5
"""A run that lost so many workers in a row, and came no further, ends as failed."""
SUSPECT_LOST_WORKERS = 2
"""From so many on, runs are taken up one at a time until they come further (docs/adr/0181)."""

_DEFER = text("""
    SELECT (procrastinate_defer_jobs_v1(ARRAY[
        ROW(:queue, :task, 0, :lock, NULL, CAST(:arguments AS jsonb), CAST(:at AS timestamptz))
    ]::procrastinate_job_to_defer_v1[]))[1]
""")
_QUEUE_RUN = text("""
    UPDATE theatres SET run_status = 'queued', run_job_id = :job_id WHERE id = :theatre_id
""")
SUSPECTS = "suspects"
"""The lock of their jobs."""
_IS_SUSPECT = text("""
    SELECT lost_workers >= :suspect AND lost_workers < :most FROM theatres WHERE id = :theatre_id
""")
_CLEAR = text("""
    UPDATE procrastinate_jobs SET lock = NULL
    WHERE id = (SELECT run_job_id FROM theatres WHERE id = :theatre_id)
""")
_QUEUE_INGESTION = text("""
    UPDATE verifications SET phase = 'queued', job_id = :job_id WHERE id = :verification_id
""")


async def queue_run(
    connection: AsyncConnection, theatre_id: str, *, at: datetime | None = None
) -> int:
    """Queue the run of a theatre, whose row the caller has locked; return the job's number.

    It is not taken up before `at`. procrastinate does one job of a lock at a time, in all workers:
    of two suspects neither loses a worker to the other.
    """
    values = {"theatre_id": theatre_id, "suspect": SUSPECT_LOST_WORKERS, "most": MAX_LOST_WORKERS}
    is_suspect = (await connection.execute(_IS_SUSPECT, values)).scalar_one()
    job_id = await _defer(
        connection,
        RUNS,
        RUN_THEATRE,
        {"theatre_id": theatre_id},
        at=at,
        lock=SUSPECTS if is_suspect else None,
    )
    await connection.execute(_QUEUE_RUN, {"job_id": job_id, "theatre_id": theatre_id})
    return job_id


async def clear_suspect(connection: AsyncConnection, theatre_id: str) -> None:
    """Let the next suspect be taken up: this run, which the caller holds, has come further."""
    await connection.execute(_CLEAR, {"theatre_id": theatre_id})


async def queue_ingestion(
    connection: AsyncConnection, verification_id: str, *, at: datetime | None = None
) -> int:
    """Queue the reading of a verification's ground truth; row and `at` as for `queue_run`."""
    arguments: JsonObject = {"verification_id": verification_id}
    job_id = await _defer(connection, INGESTIONS, INGEST, arguments, at=at)
    named = {"job_id": job_id, "verification_id": verification_id}
    await connection.execute(_QUEUE_INGESTION, named)
    return job_id


async def end_waiting_at(connection: AsyncConnection, theatre_id: str, moment: datetime) -> None:
    """Have a theatre that waits for people looked at again at `moment`."""
    await _defer(connection, UPKEEP, END_WAITING, {"theatre_id": theatre_id}, at=moment)


async def _defer(
    connection: AsyncConnection,
    queue: str,
    task: str,
    arguments: JsonObject,
    *,
    at: datetime | None,
    lock: str | None = None,
) -> int:
    values: dict[str, Any] = {
        "queue": queue,
        "task": task,
        "lock": lock,
        "arguments": canonical_json(arguments),
        "at": at,
    }
    return int((await connection.execute(_DEFER, values)).scalar_one())


# What lost its worker is queued again.


def _lost(table: str, *, job: str, state: str, going: str, latest: str) -> str:
    """Return the query that finds, and locks, the rows of `table` that no worker carries.

    A row is held by the `job` that it names where that is being done by a worker whose heart
    beats, and may wait, `queued`, for one that is to be done; one that is `going` may not. A job
    that has just been taken up by such a worker counts as being done. Anything else is lost.
    So is what a clock that was set back has left ahead: a heartbeat by more than the lease, a job
    by more than `latest` seconds, the longest that one is put off.
    """
    return "\n".join(
        (
            f"SELECT {table}.id",
            f"FROM {table}",
            f"LEFT JOIN procrastinate_jobs AS jobs ON jobs.id = {table}.{job}",
            "LEFT JOIN procrastinate_workers AS workers ON workers.id = jobs.worker_id",
            "    AND abs(extract(epoch FROM now() - workers.last_heartbeat)) < :lease_seconds",
            f"WHERE {state} IN ('queued', '{going}')",
            "    AND NOT (jobs.status IS NOT DISTINCT FROM 'doing' AND workers.id IS NOT NULL)",
            f"    AND NOT (jobs.status IS NOT DISTINCT FROM 'todo' AND {state} = 'queued'",
            f"        AND coalesce(jobs.scheduled_at, now()) < now() + {latest} * interval '1 s')",
            f"FOR NO KEY UPDATE OF {table} SKIP LOCKED",
        )
    )


# A run is put off by a minute and two leases at most, an ingestion by six hours.
_LOST = text(
    _lost(
        "theatres",
        job="run_job_id",
        state="run_status",
        going="running",
        latest="(60 + 2 * :lease_seconds)",
    )
)
_LOST_INGESTIONS = text(
    _lost("verifications", job="job_id", state="phase", going="ingesting", latest="22000")
)
_TAKE_OFF = text("""
    UPDATE theatres SET run_epoch = run_epoch + 1,
        lost_workers = lost_workers + (run_status = 'running')::int
    WHERE id = :theatre_id
    RETURNING CASE WHEN lost_workers > 1
        THEN now() + random() * (lost_workers - 1) * make_interval(secs => :lease_seconds / 2)
    END
""")
_COUNT_LOST = text("""
    UPDATE verifications SET lost_workers = lost_workers + (phase = 'ingesting')::int
    WHERE id = :verification_id
""")
_DROP_WORKERS = text("""
    DELETE FROM procrastinate_workers
    WHERE last_heartbeat < now() - make_interval(secs => :lease_seconds)
""")
_RETRY = text("""
    UPDATE procrastinate_jobs SET status = 'todo'
    WHERE status = 'doing' AND task_name = :task AND worker_id IS NULL
""")
_DROP_JOBS = text("""
    DELETE FROM procrastinate_jobs AS jobs
    WHERE jobs.status <> 'todo' AND jobs.worker_id IS NULL
        AND NOT EXISTS (
            SELECT FROM theatres WHERE run_job_id = jobs.id AND run_status IN ('queued', 'running')
        )
        AND NOT EXISTS (
            SELECT FROM verifications
            WHERE job_id = jobs.id AND phase IN ('queued', 'ingesting')
        )
""")


async def rescue_lost_runs(connection: AsyncConnection, *, lease_seconds: float) -> Sequence[str]:
    """Queue anew every run whose worker has not been heard of for the lease; return the theatres.

    Their epoch rises: a worker that was only paused can write nothing more. Each has a new job;
    the worker of the old one cannot end this one. From the second loss in a row on it waits for a
    random time: what kills workers from outside has time to pass.
    """
    found = await connection.execute(_LOST, {"lease_seconds": lease_seconds})
    lost = [str(theatre_id) for theatre_id in found.scalars()]
    for theatre_id in lost:
        values = {"theatre_id": theatre_id, "lease_seconds": lease_seconds}
        at = (await connection.execute(_TAKE_OFF, values)).scalar_one()
        await queue_run(connection, theatre_id, at=at)
    return lost


async def rescue_lost_ingestions(
    connection: AsyncConnection, *, lease_seconds: float
) -> Sequence[str]:
    """Queue anew every reading of ground truth whose worker is lost; return the verifications.

    The new job fences: what the old one holds is no longer its own.
    """
    found = await connection.execute(_LOST_INGESTIONS, {"lease_seconds": lease_seconds})
    lost = [str(verification_id) for verification_id in found.scalars()]
    for verification_id in lost:
        await connection.execute(_COUNT_LOST, {"verification_id": verification_id})
        await queue_ingestion(connection, verification_id)
    return lost


async def drop_leftovers(connection: AsyncConnection, *, lease_seconds: float) -> None:
    """Delete workers that were not heard of for the lease, and the jobs that they left over."""
    # Their jobs lose them, by the foreign key.
    await connection.execute(_DROP_WORKERS, {"lease_seconds": lease_seconds})
    await connection.execute(_RETRY, {"task": END_WAITING})
    await connection.execute(_DROP_JOBS)
