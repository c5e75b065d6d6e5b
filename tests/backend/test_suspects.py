"""A run that kills its workers comes to its end, and takes nobody along (docs/adr/0130)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import change_run
from backend.services.held_runs import RunLease
from backend.services.isolation import ReadersWriterLock
from backend.services.run_attempts import MAX_LOST_WORKERS
from backend.services.run_jobs import SUSPECT_LOST_WORKERS
from backend.services.run_watch import RunMonitor
from tests.backend.databases import Database
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_guards import claimed, play, with_a_theatre
from tests.backend.test_lost_workers import Company, a_company
from tests.backend.worker_pool import is_dead
from tests.theatre.conftest import episode
from tests.theatre.echelon_process import PATIENCE_SECONDS, until
from tests.theatre.files.journal_conformance import THEATRE_ID, remark, result

if TYPE_CHECKING:
    from backend.services.run_endings import RunCompletion

DOOM = "second gate"


class Pair:
    """A theatre that kills its workers at its first episode, and one that only waits there."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self.doomed, self.innocent = company.ask_for_runs(2)
        company.stage.doom(_id(self.doomed))
        self._workers = [company.pool.fork()]
        self._jobs: set[tuple[str, int, int]] = set()

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

    def was_one_turned_away(self) -> bool:
        """Tell whether a worker that lives has put a queued run back into the queue.

        The rescue gives a lost run another job, too, but in another epoch.
        """
        self._jobs |= {
            (str(row["id"]), row["run_epoch"], row["run_job_id"])
            for row in self._company.database.rows(
                "SELECT id, run_epoch, run_job_id FROM theatres WHERE run_status = 'queued'"
            )
        }
        return len({(theatre_id, epoch) for theatre_id, epoch, _ in self._jobs}) < len(self._jobs)

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


def test_a_run_that_kills_its_workers_ends_as_failed_and_takes_nobody_along(
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
        until(
            lambda: pair.was_one_turned_away() or len(stage.calls) > together + 1,
            "the other one to be turned away",
        )
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


def test_a_suspect_is_cleared_by_what_it_records(database: Database) -> None:
    cleared: list[str] = []

    async def scene(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            await change_run(connection, THEATRE_ID, lost_workers=SUSPECT_LOST_WORKERS)
        stored = await claimed(engine)
        monitor = RunMonitor(
            engine,
            # Nothing comes to its end here.
            RunLease(stored=stored, completion=cast("RunCompletion", None)),
            # So short that the row is asked each time.
            lease_seconds=0,
            is_draining=lambda: False,
            on_progress=lambda: cleared.append(stored.id),
        )
        await monitor.confirm_if_stale()
        assert cleared == []
        journal = PostgresRunJournal(engine, THEATRE_ID, epoch=stored.run_epoch)
        await journal.append([result(1)], [remark(1)])
        await monitor.confirm_if_stale()
        assert cleared == [THEATRE_ID]

    play(with_a_theatre(database), scene)


def test_who_is_to_be_alone_waits_for_the_others_and_nobody_waits_for_it() -> None:
    async def scene() -> None:
        isolation = ReadersWriterLock(seconds=0.01)
        may_leave, told = asyncio.Event(), []

        async def other() -> None:
            async with isolation.stay(alone=False) as stay:
                assert stay is not None
                await may_leave.wait()
                told.append(isolation.must_leave(stay))

        async def suspect() -> None:
            async with isolation.stay(alone=True) as stay:
                assert stay is not None
                told.append(isolation.must_leave(stay))
                async with isolation.stay(alone=False) as refused:
                    assert refused is None
                async with isolation.stay(alone=True) as refused:
                    assert refused is None
                isolation.downgrade(stay)
                async with isolation.stay(alone=False) as company:
                    assert company is not None
                    assert not isolation.must_leave(stay)

        others = [asyncio.create_task(other()) for _ in range(2)]
        await asyncio.sleep(0)
        suspected = asyncio.create_task(suspect())
        await asyncio.sleep(0)
        assert told == []
        may_leave.set()
        await asyncio.gather(*others, suspected)
        assert told == [True, True, False]

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS))


def test_who_gives_up_waiting_to_be_alone_leaves_the_door_open() -> None:
    async def scene() -> None:
        isolation = ReadersWriterLock(seconds=0.01)

        async def suspect() -> None:
            async with isolation.stay(alone=True):
                raise AssertionError

        async with isolation.stay(alone=False) as stay:
            assert stay is not None
            waiting = asyncio.create_task(suspect())
            await asyncio.sleep(0)
            assert isolation.must_leave(stay)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()
            assert not isolation.must_leave(stay)

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS))
