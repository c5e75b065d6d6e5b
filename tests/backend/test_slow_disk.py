"""A run that waits for its disk keeps its worker alive: others hear of it meanwhile."""

from datetime import datetime
from pathlib import Path

from tests.backend.databases import Database
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_lost_workers import Company, a_company, assert_whole
from tests.backend.worker_nursery import STANDING
from tests.theatre.echelon_process import until

BEATS = 5
"""Two workers, each with a last beat and one under way as the disk stopped: the fifth is later."""


def heartbeats(company: Company) -> set[datetime]:
    rows = company.database.rows("SELECT last_heartbeat FROM procrastinate_workers")
    return {row["last_heartbeat"] for row in rows}


def test_a_worker_whose_disk_stands_still_while_it_settles_is_heard_of(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(2))
    # Long enough for a machine that is busy with other things, too.
    with a_company(database, tmp_path, stage, ECHELON_LEASE_SECONDS="4") as company:
        standing = company.home / STANDING
        company.pool.fork("disk")
        (path,) = company.ask_for_runs(1)
        until(standing.exists, "the disk to stand still")
        assert company.ada.get(path).document["state"] == "SETTLING"
        seen: set[datetime] = set()

        def is_heard_of() -> bool:
            seen.update(heartbeats(company))
            return len(seen) >= BEATS

        until(is_heard_of, "heartbeats of a worker whose disk stands still")
        standing.unlink()
        company.await_ended(1)
        assert_whole(company, [path], episodes=2)
