"""Jobs, put into the queue by the transaction that needs them done.

A theatre's row names the one job that its run waits for, or is held by, and so does the row of a
verification, of the reading of its ground truth: a job that none of them names has nothing to do.
"""

from __future__ import annotations

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
    values = {
        "theatre_id": theatre_id,
        "suspect": SUSPECT_LOST_WORKERS,
        "most": MAX_LOST_WORKERS,
    }
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
