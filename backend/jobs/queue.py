"""Jobs, put into the queue by the transaction that needs them done.

A theatre's row names the one job that its run waits for, or is held by, and so do the rows of a
shard and of a verification, of the reading of its ground truth: a job that none of them names has
nothing to do.
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
RUN_SHARD = "run_shard"
END_WAITING = "end_waiting"

_DEFER = text("""
    SELECT (procrastinate_defer_jobs_v1(ARRAY[
        ROW(:queue, :task, 0, NULL, NULL, CAST(:arguments AS jsonb), CAST(:at AS timestamptz))
    ]::procrastinate_job_to_defer_v1[]))[1]
""")
_QUEUE_RUN = text("""
    UPDATE theatres SET run_status = 'queued', run_job_id = :job_id WHERE id = :theatre_id
""")
_QUEUE_SHARD = text("""
    UPDATE run_shards SET state = 'queued', job_id = :job_id, share = coalesce(:share, share)
    WHERE theatre_id = :theatre_id AND number = :number
""")

_QUEUE_INGESTION = text("""
    UPDATE verifications SET phase = 'queued', job_id = :job_id WHERE id = :verification_id
""")


async def queue_run(
    connection: AsyncConnection, theatre_id: str, *, at: datetime | None = None
) -> int:
    """Queue the run of a theatre, whose row the caller has locked; return the job's number.

    It is not taken up before `at`.
    """
    job_id = await _defer(connection, RUNS, RUN_THEATRE, {"theatre_id": theatre_id}, at=at)
    await connection.execute(_QUEUE_RUN, {"job_id": job_id, "theatre_id": theatre_id})
    return job_id


async def queue_shard(
    connection: AsyncConnection,
    theatre_id: str,
    number: int,
    *,
    share: int | None = None,
    at: datetime | None = None,
) -> None:
    """Queue a shard, whose row, or whose theatre's, the caller has locked.

    It gets that `share` of the calls, or keeps its own; `at` as for a run.
    """
    arguments: JsonObject = {"theatre_id": theatre_id, "number": number}
    job_id = await _defer(connection, RUNS, RUN_SHARD, arguments, at=at)
    await connection.execute(_QUEUE_SHARD, {"job_id": job_id, "share": share, **arguments})


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
) -> int:
    values: dict[str, Any] = {
        "queue": queue,
        "task": task,
        "arguments": canonical_json(arguments),
        "at": at,
    }
    return int((await connection.execute(_DEFER, values)).scalar_one())
