"""Runs go on by themselves when a database that was away is back."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import APPLICATION, OWNER
from tests.backend.databases import Database
from tests.backend.embedded_home import EmbeddedHome
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_lost_workers import a_company, assert_whole
from tests.theatre.echelon_process import until

AWAY_SECONDS = 20.0 if os.environ.get("ECHELON_SOAK") == "1" else 1.0
Ending = Callable[[EmbeddedHome], None]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EmbeddedHome]:
    made = EmbeddedHome(tmp_path / "server")
    yield made
    made.end()


def stop(home: EmbeddedHome) -> None:
    """As an operator does: connections are closed, and the server ends."""
    os.kill(home.postmaster, signal.SIGINT)
    until(lambda: not home.processes(), "the end of the database")


def kill(home: EmbeddedHome) -> None:
    """As a machine does: the server, its children and its keeper, at once."""
    home.kill(*home.processes())


@pytest.mark.parametrize("end", [stop, kill])
def test_a_run_outlives_a_database_that_is_away(
    home: EmbeddedHome, tmp_path: Path, end: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage = sums_stage(tmp_path / "stage", sums(5, gate_at=3))
    with EmbeddedServer(home.home) as server:
        migrations.upgrade(server.address(OWNER))
        database = Database(
            application=server.address(APPLICATION),
            owner=server.address(OWNER),
            superuser=server.address(SUPERUSER),
        )
        with a_company(database, tmp_path, stage, ECHELON_DRAIN_SECONDS="1") as company:
            company.pool.start()
            (path,) = company.ask_for_runs(1)
            company.await_recorded(2)
            end(home)
            gone = time.monotonic()
            company.await_told("the workers have ended")
            asked = [
                company.ada.get(name) for name in ("/readyz", path, "/constructs/sums/routing")
            ]
            assert [one.slug for one in asked] == ["not-ready"] * 3
            until(lambda: time.monotonic() >= gone + AWAY_SECONDS, "a while without a database")
            server.start()
            company.let_through_until_recorded(5)
            company.await_ended(1)
            # Each connection of the service is found broken once.
            until(lambda: company.ada.get(path).status == 200, "an answer of the service")
            assert_whole(company, [path], episodes=5)
            # Tried every two seconds, and said once.
            assert company.pool.log().count("the log's writer has lost its database") == 1
            again = "the log's writer has its database again"
            until(lambda: again in company.pool.log() + caplog.text, "the log's writer")
