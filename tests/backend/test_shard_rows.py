"""Shards as rows: who takes one up, who may write for it, and what becomes of a lost one."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.jobs.queue import queue_run, queue_shard
from backend.jobs.rescue import drop_leftovers, rescue_lost_runs, rescue_lost_shards
from backend.repositories.fences import ShardFence
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.run_shards import (
    ShardClaim,
    add_shards,
    claim_shard,
    hand_to_shards,
    last_counting,
    seize_run,
)
from backend.repositories.theatre_runs import claim_run
from backend.runtime import now
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.backend.test_job_queue import LEASE_SECONDS, THEATRE_ID, execute, within
from tests.backend.test_run_journal import with_engine
from tests.theatre.files.journal_conformance import remark, result
from theatre.engine.errors import StateConflictError

SHARDS = "SELECT number, state, epoch, share, lost_workers FROM run_shards ORDER BY number"
WAITING = {"number": 2, "state": "waiting", "epoch": 0, "share": 0, "lost_workers": 0}
RUN_EPOCH = 2
"""Claimed, and left to the shards."""


@pytest.fixture
def divided(database: Database) -> Database:
    """A run of five episodes in two shards, of which the first is queued."""
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID, **COMMITMENT)

    async def divide(connection: AsyncConnection) -> None:
        job_id = await queue_run(connection, THEATRE_ID)
        await claim_run(connection, THEATRE_ID, job_id=job_id, at=now())
        await add_shards(connection, THEATRE_ID, total=5, size=3)
        await hand_to_shards(connection, THEATRE_ID)
        await queue_shard(connection, THEATRE_ID, 1, share=4)

    within(database, divide)
    # Its worker has ended it.
    execute(database, "DELETE FROM procrastinate_jobs WHERE task_name = 'run_theatre'")
    return database


def job_of_the_first(database: Database) -> int:
    (row,) = database.rows("SELECT job_id FROM run_shards WHERE number = 1")
    return int(row["job_id"])


def claimed(database: Database, job_id: int) -> ShardClaim | None:
    return within(database, lambda one: claim_shard(one, THEATRE_ID, 1, job_id=job_id))


def taken_up(database: Database, *, heard_of: str) -> ShardClaim:
    """Have a worker hold the first shard that was last heard of so long ago."""
    execute(
        database,
        "WITH worker AS (INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - %s::interval) RETURNING id)"
        " UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM worker)",
        heard_of,
    )
    claim = claimed(database, job_of_the_first(database))
    assert claim is not None
    return claim


def rescued(database: Database) -> tuple[list[str], list[tuple[str, int]]]:
    async def rescue(connection: AsyncConnection) -> tuple[list[str], list[tuple[str, int]]]:
        runs = await rescue_lost_runs(connection, lease_seconds=LEASE_SECONDS)
        shards = await rescue_lost_shards(connection, lease_seconds=LEASE_SECONDS)
        await drop_leftovers(connection, lease_seconds=LEASE_SECONDS)
        return list(runs), list(shards)

    return within(database, rescue)


def seized(connection: AsyncConnection) -> Awaitable[None]:
    return seize_run(connection, THEATRE_ID, job_id=1)


def append(database: Database, seq: int, *, epoch: int, shard: ShardFence) -> None:
    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID, epoch=epoch, shard=shard)
        await journal.append([result(seq)], [remark(seq)])

    with_engine(database, scene)


def test_a_shard_is_taken_up_once_by_the_job_that_it_names(divided: Database) -> None:
    job_id = job_of_the_first(divided)
    assert claimed(divided, job_id + 1) is None
    claim = claimed(divided, job_id)
    assert claim == ShardClaim(number=1, first_seq=1, last_seq=3, epoch=1, share=4, lost_workers=0)
    assert claim.span == range(1, 4)
    assert claimed(divided, job_id) is None
    assert divided.rows(SHARDS)[1] == WAITING


def test_nobody_takes_up_a_shard_of_a_run_that_was_taken_from_its_shards(
    divided: Database,
) -> None:
    job_id = job_of_the_first(divided)
    within(divided, seized)
    execute(divided, "UPDATE run_shards SET state = 'queued', share = 1, job_id = %s", job_id)
    assert claimed(divided, job_id) is None


@pytest.mark.parametrize(
    ("epoch", "shard"),
    [(RUN_EPOCH - 1, ShardFence(1, 1)), (RUN_EPOCH, ShardFence(1, 0))],
    ids=["of the run", "of the shard"],
)
def test_who_holds_an_older_epoch_writes_nothing(
    divided: Database, epoch: int, shard: ShardFence
) -> None:
    assert claimed(divided, job_of_the_first(divided)) is not None
    with pytest.raises(StateConflictError, match="another worker has taken it up"):
        append(divided, 1, epoch=epoch, shard=shard)
    assert divided.rows("SELECT FROM theatre_episode_scores") == []
    append(divided, 1, epoch=RUN_EPOCH, shard=ShardFence(1, 1))
    assert divided.rows("SELECT seq FROM theatre_episode_scores") == [{"seq": 1}]


def test_a_shard_whose_worker_is_heard_of_or_whose_job_waits_is_left(divided: Database) -> None:
    assert rescued(divided) == ([], [])
    taken_up(divided, heard_of="19 seconds")
    before = divided.rows(SHARDS)
    assert rescued(divided) == ([], [])
    assert divided.rows(SHARDS) == before


def test_a_shard_whose_worker_is_not_heard_of_is_queued_anew_with_its_share(
    divided: Database,
) -> None:
    taken_up(divided, heard_of="21 seconds")
    assert rescued(divided) == ([], [(THEATRE_ID, 1)])
    expected = {"number": 1, "state": "queued", "epoch": 2, "share": 4, "lost_workers": 1}
    assert divided.rows(SHARDS) == [expected, WAITING]
    assert divided.rows("SELECT task_name, status::text, args FROM procrastinate_jobs") == [
        {
            "task_name": "run_shard",
            "status": "todo",
            "args": {"theatre_id": THEATRE_ID, "number": 1},
        }
    ]
    assert rescued(divided) == ([], [])


def test_what_a_shard_records_is_counted_as_a_worker_that_was_not_lost(divided: Database) -> None:
    execute(divided, "UPDATE run_shards SET lost_workers = 3 WHERE number = 1")
    claim = claimed(divided, job_of_the_first(divided))
    assert claim is not None
    append(divided, 2, epoch=RUN_EPOCH, shard=claim.fence)
    assert divided.rows(SHARDS)[0]["lost_workers"] == 0


def test_a_run_that_neither_a_job_nor_a_shard_carries_is_queued_anew(divided: Database) -> None:
    execute(divided, "UPDATE run_shards SET state = 'waiting', share = 0 WHERE number = 1")
    assert rescued(divided) == ([THEATRE_ID], [])


def test_a_run_that_was_taken_from_its_shards_is_rescued_as_a_whole(divided: Database) -> None:
    taken_up(divided, heard_of="21 seconds")
    job_id = job_of_the_first(divided)
    within(divided, lambda connection: seize_run(connection, THEATRE_ID, job_id=job_id))
    assert rescued(divided) == ([THEATRE_ID], [])
    assert {row["state"] for row in divided.rows(SHARDS)} == {"done"}


@pytest.mark.parametrize(("fatal", "expected"), [(1, 2), (2, 4), (3, None)])
def test_the_last_episode_that_counts_is_the_failure_of_that_number(
    divided: Database, fatal: int, expected: int | None
) -> None:
    # Every second result is a failure.
    claim = claimed(divided, job_of_the_first(divided))
    assert claim is not None
    for seq in (5, 4, 3, 2):
        append(divided, seq, epoch=RUN_EPOCH, shard=claim.fence)

    async def look(connection: AsyncConnection) -> int | None:
        return await last_counting(connection, THEATRE_ID, fatal=fatal)

    assert within(divided, look) == expected
