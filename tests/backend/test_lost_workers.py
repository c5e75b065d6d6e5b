"""What becomes of runs whose workers are killed or paused: real processes, real signals.

One that waits for its disk is heard of all the same."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from backend.database.sessions import OWNER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import bundle_of, committed
from tests.backend.worker_nursery import STANDING
from tests.backend.worker_pool import LEASE_SECONDS, WorkerPool, is_dead, worker_pool
from tests.theatre.conftest import episode
from tests.theatre.echelon_process import ECHELON, PATIENCE_SECONDS, until
from tests.theatre.runs import checked
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject, parse_object

SOAK = os.environ.get("ECHELON_SOAK") == "1"
THEATRES = 30 if SOAK else 10
EPISODES = 60 if SOAK else 24
KILLS = 40 if SOAK else 10
PAUSES = 12 if SOAK else 4
WORKERS = 3

# When each result was recorded: an invocation that began later was one too many.
NOTE_RECORDED = """
    CREATE TABLE recorded_at (theatre_id uuid, seq int, at timestamptz DEFAULT clock_timestamp());
    GRANT INSERT ON recorded_at TO echelon_app;
    CREATE FUNCTION note_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO recorded_at VALUES (NEW.theatre_id, NEW.seq); RETURN NULL; END $$;
    CREATE TRIGGER note_recorded AFTER INSERT ON theatre_episode_scores
        FOR EACH ROW EXECUTE FUNCTION note_recorded()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A service that runs nothing itself, and workers that do."""

    ada: Client
    pool: WorkerPool
    database: Database
    home: Path
    stage: SumsStage

    def ask_for_runs(self, count: int, template: Any = None) -> list[str]:  # noqa: ANN401 - JSON
        """Commit theatres and queue their runs; return their paths."""
        paths = [committed(self.ada, template or self.stage.template) for _ in range(count)]
        for path in paths:
            assert self.ada.post(f"{path}/run", b"").status == 202
        return paths

    def await_recorded(self, results: int) -> None:
        query = "SELECT count(*) FROM theatre_episode_scores HAVING count(*) >= %s"
        until(lambda: self.database.rows(query, results), f"{results} results")

    def await_ended(self, theatres: int) -> None:
        query = (
            "SELECT count(*) FROM theatres WHERE run_status IN ('succeeded', 'failed')"
            " HAVING count(*) = %s"
        )
        until(lambda: self.database.rows(query, theatres), f"the end of {theatres} runs")

    def calls_of(self, number: int) -> int:
        return [called for _, called, _ in self.stage.calls].count(number)

    def let_through_until_recorded(self, results: int, *, gate: str = "gate") -> None:
        query = "SELECT count(*) FROM theatre_episode_scores HAVING count(*) >= %s"

        def are_recorded() -> bool:
            # Whoever has just come before the gate may have missed it.
            self.stage.let_through(gate)
            return bool(self.database.rows(query, results))

        until(are_recorded, f"{results} results")

    def await_told(self, line: str) -> None:
        until(lambda: line in self.pool.log(), f"a worker to say that a {line}")

    def await_death_of(self, pid: int) -> None:
        until(lambda: is_dead(pid), "the end of a worker")


@pytest.fixture
def company(database: Database, tmp_path: Path) -> Iterator[Company]:
    stage = sums_stage(tmp_path / "stage", sums(EPISODES), seconds=0.02)
    with a_company(database, tmp_path, stage) as company:
        yield company


@contextlib.contextmanager
def a_company(
    database: Database, tmp_path: Path, stage: SumsStage, **variables: str
) -> Iterator[Company]:
    home = tmp_path / "home"
    changes = {**stage.settings, "worker_in_api": False, "lease_seconds": LEASE_SECONDS}
    with (
        served(create_app(settings_for(database, home, **changes))) as client,
        worker_pool(database, home, **stage.variables, **variables) as pool,
    ):
        yield Company(
            ada=client.registered("ada"), pool=pool, database=database, home=home, stage=stage
        )


def assert_whole(company: Company, paths: Sequence[str], *, episodes: int) -> None:
    """Each theatre certified once, nothing recorded twice, chain and bundle sound."""
    database = company.database
    for path in paths:
        theatre = company.ada.get(path).document
        assert (theatre["state"], theatre["outcome"], theatre["progress"]) == (
            "ARCHIVED",
            "certified",
            episodes,
        ), theatre
        theatre_id = theatre["id"]
        rows = database.rows(
            "SELECT entry FROM theatre_audit_events WHERE theatre_id = %s ORDER BY seq", theatre_id
        )
        verify_chain([parse_object(row["entry"]) for row in rows], theatre_id=theatre_id)
        assert checked(bundle_of(company.home, path)).consistent
    (seen,) = database.rows(
        "SELECT count(*), count(DISTINCT theatre_id) AS of, count(DISTINCT results_hash) AS hashes"
        " FROM theatre_certificates"
    )
    assert seen == {"count": len(paths), "of": len(paths), "hashes": 1}
    assert database.rows("SELECT count(*) FROM theatre_episode_scores") == [
        {"count": len(paths) * episodes}
    ]


def assert_nothing_called_again(company: Company) -> None:
    """No construct was called for an episode whose result was already recorded."""
    recorded = {
        (str(row["theatre_id"]), row["seq"]): row["at"]
        for row in company.database.rows(
            "SELECT theatre_id, seq, EXTRACT(EPOCH FROM at) AS at FROM recorded_at"
        )
    }
    late = [
        (theatre_id, seq)
        for theatre_id, seq, at in company.stage.calls
        if at > recorded[theatre_id, seq]
    ]
    assert late == []


def test_killed_and_paused_workers_lose_nothing_and_do_nothing_twice(company: Company) -> None:
    with company.database.connected(OWNER) as connection:
        connection.execute(NOTE_RECORDED.encode())
    (undisturbed,) = company.ask_for_runs(1)
    workers = [company.pool.start()]
    company.await_ended(1)
    workers += [company.pool.start() for _ in range(WORKERS - 1)]
    paths = company.ask_for_runs(THEATRES)
    faults = ["pause" if number % 3 == 2 else "kill" for number in range(KILLS + PAUSES)]
    for number, fault in enumerate(faults):
        # Faults are spread over the work, behind the undisturbed run.
        company.await_recorded(EPISODES + number * THEATRES * EPISODES // len(faults))
        victim = workers.pop(0)
        if fault == "pause":
            company.pool.pause_beyond_the_lease(victim, others=WORKERS - 1)
            workers.append(victim)
        else:
            company.pool.kill(victim)
            workers.append(company.pool.start())
    company.await_ended(THEATRES + 1)
    assert_whole(company, [undisturbed, *paths], episodes=EPISODES)
    assert_nothing_called_again(company)


def gated(number: int, gate: str = "gate") -> JsonObject:
    return episode(number, [number, 1], gate)


def test_a_worker_that_was_only_paused_records_nothing_and_calls_nobody(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", [*sums(2), gated(3), gated(4, "second gate")])
    with a_company(database, tmp_path, stage) as company:
        paused = company.pool.start()
        (path,) = company.ask_for_runs(1)
        company.await_recorded(2)
        os.kill(paused, signal.SIGSTOP)
        company.pool.start()
        until(lambda: company.calls_of(3) == 2, "another worker to take over")
        company.let_through_until_recorded(3)
        # It has an answer that is recorded by now, and a next episode to call.
        os.kill(paused, signal.SIGCONT)
        company.await_told("run is another's")
        until(lambda: company.calls_of(4) == 1, "the last call")
        company.let_through_until_recorded(4, gate="second gate")
        company.await_ended(1)
        assert_whole(company, [path], episodes=4)
        assert [company.calls_of(number) for number in (1, 2, 3, 4)] == [1, 1, 2, 1]


def test_a_worker_that_is_stopped_ends_its_episode_and_hands_the_rest_over(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", [*sums(2), gated(3), *sums(5)[3:]])
    with a_company(database, tmp_path, stage) as company:
        stopped = company.pool.start()
        (path,) = company.ask_for_runs(1)
        until(lambda: company.calls_of(3) == 1, "the third call")
        company.pool.stop(stopped)
        company.await_told("run is to stop")
        company.let_through_until_recorded(3)
        company.await_death_of(stopped)
        rows = database.rows("SELECT run_status, run_epoch, progress, lost_workers FROM theatres")
        assert rows == [{"run_status": "queued", "run_epoch": 1, "progress": 3, "lost_workers": 0}]
        with subprocess.Popen([ECHELON, "worker"], env=company.pool.environment) as worker:
            try:
                company.await_ended(1)
                worker.terminate()
                assert worker.wait(PATIENCE_SECONDS) == 0
            finally:
                worker.kill()
        assert_whole(company, [path], episodes=5)
        assert [company.calls_of(number) for number in range(1, 6)] == [1, 1, 1, 1, 1]


def test_a_cancelled_run_ends_its_episode_wherever_it_runs(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", [*sums(2), gated(3), *sums(5)[3:]])
    with a_company(database, tmp_path, stage) as company:
        company.pool.start()
        (path,) = company.ask_for_runs(1)
        until(lambda: company.calls_of(3) == 1, "the third call")
        assert company.ada.post(f"{path}/cancel", b"").status == 202
        company.await_told("run is to stop")
        company.let_through_until_recorded(3)
        until(lambda: company.ada.get(path).document["state"] == "RESOLVED", "the end")
        theatre = company.ada.get(path).document
        assert (theatre["outcome"], theatre["outcome_reason"], theatre["progress"]) == (
            "void",
            "cancelled",
            3,
        )
        assert company.calls_of(4) == 0


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
