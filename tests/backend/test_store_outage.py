"""A bucket whose server is killed in the middle of things: told, and gone on with when it is up.

Runs go on by themselves when a database that was away is back, too."""

import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import APPLICATION, OWNER
from backend.evidence_store.parts import PART_BYTES
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.embedded_home import EmbeddedHome
from tests.backend.object_stores import ObjectStore, free_port, rclone
from tests.backend.serving import Client, served, settings_for
from tests.backend.store_relay import StoreRelay
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_lost_workers import a_company, assert_whole
from tests.backend.test_theatre_bridge import committed
from tests.theatre.echelon_process import until

JSONL = {"Content-Type": "application/x-ndjson"}
LINE = json.dumps({"episode_id": "one", "text": "x" * 1_000_000}).encode() + b"\n"
UPLOAD = LINE * (2 * PART_BYTES // len(LINE) + 1)
"""Three parts of it."""
FROM_THE_STORE = ("evidence-bundle", "evidence-bundle/manifest.json", "replay")


@dataclass(frozen=True, slots=True)
class Scene:
    """A service whose bucket lies behind a relay, on the disk of a server that can be killed."""

    database: Database
    folder: Path
    stage: SumsStage
    relay: StoreRelay
    ada: Client

    def store(self) -> AbstractContextManager[ObjectStore]:
        return rclone(self.relay.server_port, self.folder / "served")

    def kill_at(self, server: ObjectStore, fragment: str, *, times: int = 1) -> None:
        """Kill the server in place of the `times`th object sent whose key holds a fragment."""
        seen = 0

        def judge(method: str, path: str) -> bool:
            nonlocal seen
            seen += method == "PUT" and fragment in path
            if seen == times:
                server.kill()
            return seen < times

        self.relay.judge = judge

    def mend(self) -> None:
        self.relay.requests.clear()
        self.relay.judge = lambda *_: True

    def count(self, table: str) -> int:
        return len(self.database.rows(f"SELECT 1 FROM {table}"))  # noqa: S608 - a test's table

    def whole_status(self) -> int:
        """Return what a probe sees that looks at nothing but the status."""
        return self.ada.get("/readyz?whole=true").status

    def until_told(self, status: str) -> None:
        until(
            lambda: self.ada.get("/readyz").document.get("status") == status,
            f"the service to call itself {status}",
            pause=0.1,
        )


@pytest.fixture
def scene(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    stage = sums_stage(tmp_path / "stage", sums(4))
    with StoreRelay(free_port()).running() as relay:
        there = ObjectStore(relay.port)
        for name, value in there.variables.items():
            monkeypatch.setenv(name, value)
        settings = settings_for(
            database, tmp_path / "home", **stage.settings, evidence_url=there.url
        )
        with served(create_app(settings)) as client:
            yield Scene(database, tmp_path, stage, relay, client.registered("ada"))


def test_a_run_whose_store_is_killed_while_it_takes_the_bundle_goes_on_when_it_is_back(
    scene: Scene,
) -> None:
    with scene.store() as server:
        path = committed(scene.ada, scene.stage.template)
        scene.until_told("ready")
        scene.kill_at(server, "/bundles/")
        assert scene.ada.post(f"{path}/run", b"").status == 202
        told = until(
            lambda: scene.ada.get(path).document["error"], "the run to say what it lacks", pause=0.1
        )
        assert str(told).startswith("evidence-store: expected the evidence store to ")
        scene.until_told("degraded")
        assert scene.whole_status() == 503
    assert scene.ada.get(path).document["state"] == "SETTLING"
    assert (scene.count("sealed_bundles"), scene.count("theatre_certificates")) == (0, 0)
    assert kept(scene, "bundles") == []
    scene.mend()
    with scene.store():
        until(
            lambda: scene.ada.get(path).document["state"] == "ARCHIVED",
            "the end of the run",
            pause=0.1,
        )
        assert scene.ada.get(path).document["outcome"] == "certified"
        scene.until_told("ready")
        until(lambda: scene.whole_status() == 200, "a status that says so", pause=0.1)
        whole = {name: scene.ada.get(f"{path}/{name}") for name in FROM_THE_STORE}
        assert {one.status for one in whole.values()} == {200}
    assert [number for _, number, _ in scene.stage.calls] == [1, 2, 3, 4]
    # What is read from the store is refused for a while, what is read from the rows is not.
    shutil.rmtree(scene.folder / "home" / "evidence" / "cache")
    for name in FROM_THE_STORE:
        refused = scene.ada.get(f"{path}/{name}")
        assert (refused.status, refused.slug) == (503, "not-ready"), name
        assert refused.headers["retry-after"] == "1"
    for name in ("", "/certificate", "/audit-events", "/episodes", "/commitment"):
        assert scene.ada.get(f"{path}{name}").status == 200, name
    with scene.store():
        again = {name: scene.ada.get(f"{path}/{name}") for name in FROM_THE_STORE}
    assert {name: one.body for name, one in again.items()} == {
        name: one.body for name, one in whole.items()
    }


def test_an_upload_of_ground_truth_during_which_the_store_is_killed_is_refused_and_repeated(
    scene: Scene,
) -> None:
    with scene.store() as server:
        scene.kill_at(server, "/parts/", times=2)
        refused = scene.ada.post("/api/v1/datasets", UPLOAD, headers=JSONL)
        assert (refused.status, refused.slug) == (503, "not-ready")
    assert scene.count("datasets") == 0
    assert kept(scene, "datasets") == []
    scene.mend()
    with scene.store():
        taken = scene.ada.post("/api/v1/datasets", UPLOAD, headers=JSONL)
        assert taken.status == 201
        assert scene.ada.get(f"/api/v1/datasets/{taken.document['sha256']}").status == 200
    assert kept(scene, "datasets") == [f"{taken.document['sha256']}.parts"]


def kept(scene: Scene, shelf: str) -> list[str]:
    """What is on a shelf of the bucket, on the server's own disk."""
    folder = scene.folder / "served" / "evidence" / "theatres" / shelf
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


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
