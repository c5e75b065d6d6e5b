"""Real workers that pay judges from one budget: racing, and killed in the middle of a call."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.judged_stage import (
    USED,
    Treasury,
    judge_settings,
    judge_variables,
    judged_stage,
    most,
)
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_theatre_bridge import bundle_of, committed
from tests.backend.worker_pool import LEASE_SECONDS, WorkerPool, is_dead, worker_pool
from tests.theatre.echelon_process import until
from tests.theatre.oracles.loopback import serving
from tests.theatre.runs import checked
from tests.theatre.verification.messages_server import KEY, MessagesService, reading
from theatre.engine.canonical_json import JsonObject

EPISODES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Firm:
    """A service that runs nothing itself, its workers, their judge, and the operator's hand."""

    ada: Client
    pool: WorkerPool
    judge: MessagesService
    treasury: Treasury
    template: JsonObject
    home: Path

    def asked_for(self, count: int) -> list[str]:
        paths = [committed(self.ada, self.template) for _ in range(count)]
        for path in paths:
            assert self.ada.post(f"{path}/run", b"").status == 202
        return paths

    def await_status(self, status: str, paths: list[str]) -> None:
        def are_there() -> bool:
            return all(self.ada.get(path).document["run"]["status"] == status for path in paths)

        until(are_there, f"runs that are {status}")


@contextlib.contextmanager
def a_firm(database: Database, tmp_path: Path) -> Iterator[Firm]:
    stage, judge = judged_stage(tmp_path / "stage", EPISODES), MessagesService(reading)
    home = tmp_path / "home"
    with serving(judge.respond) as server:
        origin = f"http://127.0.0.1:{server.port}"
        changes = {**stage.settings, **judge_settings("anthropic", origin)}
        settings = settings_for(
            database, home, worker_in_api=False, lease_seconds=LEASE_SECONDS, **changes
        )
        variables = {**stage.variables, **judge_variables("anthropic", origin)}
        with (
            served(create_app(settings)) as client,
            worker_pool(database, home, ECHELON_RUNS_AT_A_TIME="1", **variables) as pool,
        ):
            yield Firm(
                ada=client.registered("ada"),
                pool=pool,
                judge=judge,
                treasury=Treasury(database=database),
                template=stage.template,
                home=home,
            )


def test_two_workers_never_spend_one_budget_twice(database: Database, tmp_path: Path) -> None:
    with a_firm(database, tmp_path) as firm:
        firm.treasury.allow("ada", 0)
        paths = firm.asked_for(2)
        firm.pool.start()
        firm.pool.start()
        firm.await_status("waiting_budget", paths)
        covers = int(firm.ada.get(paths[0]).document["error"].split("covers ")[1].split(" ")[0])
        # One call at a time is covered, and three in all: fewer than either run needs.
        firm.treasury.allow("ada", covers + 2 * USED)
        for path in paths:
            assert firm.ada.post(f"{path}/run", b"").status == 202
        firm.await_status("waiting_budget", paths)
        while firm.treasury.balance()["spent"] < 3 * USED:
            # The other's call was under way when there was nothing left for this one.
            for path in paths:
                firm.ada.post(f"{path}/run", b"")
            firm.await_status("waiting_budget", paths)
        assert firm.treasury.balance() == {
            "allowed": covers + 2 * USED,
            "reserved": 0,
            "spent": 3 * USED,
        }
        assert len(firm.judge.requests) == len(firm.treasury.calls()) == 3
        firm.treasury.allow("ada", 10**6)
        for path in paths:
            assert firm.ada.post(f"{path}/run", b"").status == 202
        firm.await_status("succeeded", paths)
        assert len(firm.judge.requests) == 2 * EPISODES
        assert all(checked(bundle_of(firm.home, path)).consistent for path in paths)
        assert KEY not in firm.pool.log()


def test_a_worker_that_is_killed_in_a_call_loses_what_was_reserved_and_it_is_said(
    database: Database, tmp_path: Path
) -> None:
    with a_firm(database, tmp_path) as firm:
        firm.treasury.allow("ada", 10**6)
        (path,) = firm.asked_for(1)
        killed = firm.pool.fork("after:judge")
        until(lambda: is_dead(killed), "the death of a worker")
        (lost,) = firm.treasury.calls()
        assert (lost["spent"], lost["reserved"]) == (None, most(firm.judge.requests[0]))
        firm.pool.miss()
        firm.pool.start()
        firm.await_status("succeeded", [path])
        until(lambda: firm.treasury.balance()["reserved"] == 0, "the settlement")
        first, *others = firm.treasury.calls()
        assert (first["settled_as"], first["spent"]) == ("worker-lost", first["reserved"])
        assert [(one["settled_as"], one["spent"]) for one in others] == [
            ("counted", USED)
        ] * EPISODES
        (budget,) = firm.ada.get("/api/v1/judge-budgets").document["budgets"]
        assert budget["lost"] == first["reserved"]
        assert budget["total"]["spent"] == first["reserved"] + EPISODES * USED
        assert "judge call lost its worker, and is charged its maximum" in firm.pool.log()
        assert checked(bundle_of(firm.home, path)).consistent
