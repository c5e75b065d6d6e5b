"""A run that kills its workers comes to its end, and others come to theirs (docs/adr/0181)."""

from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.queue import MAX_LOST_WORKERS, SUSPECT_LOST_WORKERS, SUSPECTS, queue_run
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import change_run
from backend.services.runs.lease import RunMonitor
from tests.backend.databases import Database
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_guards import claimed, with_a_theatre
from tests.backend.test_lost_workers import Company, a_company
from tests.backend.worker_pool import is_dead
from tests.theatre.conftest import episode
from tests.theatre.echelon_process import until
from tests.theatre.files.journal_conformance import THEATRE_ID, remark, result

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
