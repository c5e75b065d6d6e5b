"""What becomes of verifications whose workers are killed, paused or stopped while they read."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backend.database.sessions import APPLICATION
from backend.main import create_app
from backend.services.verifications.ingestion import MAX_LOST_WORKERS
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_theatre_bridge import bundle_of
from tests.backend.verification_stage import FEW, Gate, GitHubStage, asked, finished, github, status
from tests.backend.worker_pool import WorkerPool, is_dead, worker_pool
from tests.theatre.echelon_process import until
from tests.theatre.runs import checked

LEASE_SECONDS = "5"
"""Long enough that a worker of a busy machine is not given up while it works."""
ANOTHERS = "ingestion is another's"
AFTER_TWO_CHANGES = 5
"""The request for the files of the third change; the first two are kept by then."""
TRAIL = """
    SELECT event_type, count(*) FROM theatre_audit_events
    WHERE theatre_id = %s AND event_type IN ('created', 'committed') GROUP BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A service that runs nothing itself, workers that do, and the repository that they read."""

    ada: Client
    pool: WorkerPool
    database: Database
    home: Path
    stage: GitHubStage
    workers: list[int] = field(default_factory=list)

    def start_worker(self) -> int:
        self.workers.append(self.pool.start())
        return self.workers[-1]

    def reading_stopped_at_gate(self) -> tuple[int, str, Gate]:
        """Start a worker that reads, and return it with its job and its gate once it waits."""
        gate = self.stage.arm(after=AFTER_TWO_CHANGES)
        worker = self.start_worker()
        job_id = asked(self.ada)
        until(gate.reached.is_set, "a reading at the gate")
        return worker, job_id, gate

    def await_death_of(self, pid: int) -> None:
        until(lambda: is_dead(pid), "the end of a worker")

    def theatres(self, job_id: str) -> list[dict[str, str]]:
        return self.database.rows("SELECT state, run_status FROM theatres WHERE id = %s", job_id)

    def assert_certified_once(self, job_id: str) -> None:
        seen = finished(self.ada, job_id)
        assert (seen["outcome"], seen["replays"]["completed"]) == ("certified", FEW), seen
        kept = {row["event_type"]: row["count"] for row in self.database.rows(TRAIL, job_id)}
        assert (kept["created"], kept["committed"]) == (1, 1)
        certificates = "SELECT id FROM theatre_certificates WHERE theatre_id = %s"
        assert len(self.database.rows(certificates, job_id)) == 1
        assert checked(bundle_of(self.home, job_id)).consistent


@pytest.fixture(scope="module")
def whole_company(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Company]:
    home = tmp_path_factory.mktemp("company") / "home"
    with github() as stage:
        settings = settings_for(
            module_database,
            home,
            worker_in_api=False,
            lease_seconds=float(LEASE_SECONDS),
            github_api_url=stage.root,
        )
        variables = {"ECHELON_GITHUB_API_URL": stage.root, "ECHELON_LEASE_SECONDS": LEASE_SECONDS}
        with (
            served(create_app(settings)) as client,
            worker_pool(module_database, home, **variables) as pool,
        ):
            ada = client.registered("ada")
            yield Company(ada=ada, pool=pool, database=module_database, home=home, stage=stage)


@pytest.fixture
def company(whole_company: Company) -> Iterator[Company]:
    """The same company for all tests, but for its workers."""
    yield whole_company
    for worker in whole_company.workers:
        whole_company.pool.kill(worker)
        whole_company.await_death_of(worker)
    whole_company.workers.clear()


def test_a_worker_that_is_killed_while_it_reads_leaves_a_reading_that_goes_on(
    company: Company,
) -> None:
    before = len(company.stage.service.requests)
    victim, job_id, gate = company.reading_stopped_at_gate()
    assert status(company.ada, job_id)["phase"] == "ingesting"
    company.pool.kill(victim)
    company.await_death_of(victim)
    gate.opened.set()
    company.start_worker()
    company.assert_certified_once(job_id)
    # What was kept before is not asked for again.
    lines = company.stage.service.requests[before:]
    for change in (6, 7):
        assert sum(f" /repos/o/n/pulls/{change} " in line for line in lines) == 1
    readings = company.home / "evidence" / "readings"
    until(lambda: not (readings / job_id).exists(), "the end of what was kept")


def test_a_worker_that_dies_around_the_commitment_makes_one_theatre(company: Company) -> None:
    job_id = asked(company.ada)
    # Within the transaction of draft, commitment and queued run; then right behind it.
    for point in ("before:committed", "after:committed"):
        victim = company.pool.fork(point)
        company.await_death_of(victim)
        is_there = [{"state": "COMMITTED", "run_status": "queued"}]
        assert company.theatres(job_id) == (is_there if point.startswith("after") else []), point
    company.start_worker()
    company.assert_certified_once(job_id)


def test_a_worker_that_was_only_paused_hands_nothing_over(company: Company) -> None:
    paused, job_id, gate = company.reading_stopped_at_gate()
    told_before = company.pool.log().count(ANOTHERS)
    os.kill(paused, signal.SIGSTOP)
    # The one that takes over is held up behind its list of pull requests.
    second_gate = company.stage.arm(after=1)
    company.start_worker()
    until(second_gate.reached.is_set, "another reading at the gate")
    gate.opened.set()
    os.kill(paused, signal.SIGCONT)
    until(lambda: company.pool.log().count(ANOTHERS) > told_before, "the paused worker to see it")
    assert company.theatres(job_id) == []
    assert status(company.ada, job_id)["phase"] == "ingesting"
    second_gate.opened.set()
    company.assert_certified_once(job_id)


def test_a_worker_that_is_stopped_hands_its_reading_over(company: Company) -> None:
    stopped, job_id, gate = company.reading_stopped_at_gate()
    company.pool.stop(stopped)
    company.await_death_of(stopped)
    query = "SELECT phase, lost_workers FROM verifications WHERE id = %s"
    assert company.database.rows(query, job_id) == [{"phase": "queued", "lost_workers": 0}]
    gate.opened.set()
    company.start_worker()
    company.assert_certified_once(job_id)


def test_a_reading_that_loses_worker_after_worker_is_given_up(company: Company) -> None:
    before = len(company.stage.service.requests)
    job_id = asked(company.ada)
    with company.database.connected(APPLICATION) as connection:
        lost = b"UPDATE verifications SET lost_workers = %s WHERE id = %s"
        connection.execute(lost, [MAX_LOST_WORKERS, job_id])
    company.start_worker()
    seen = finished(company.ada, job_id)
    assert (seen["outcome"], seen["outcome_reason"]) == ("failed", "workers-lost")
    assert len(company.stage.service.requests) == before
