"""One evidence store for several machines: what one has sealed, every other one hands out."""

import io
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged, shared_keys
from tests.backend.object_stores import ObjectStore, free_port, rclone
from tests.backend.serving import PASSWORD, Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.worker_pool import WorkerPool, is_dead, worker_pool
from tests.theatre.echelon_process import until
from tests.theatre.runs import checked
from theatre.files.published_bundle import unpack_bundle


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines with homes of their own, one database and one bucket, whose server is a process."""

    database: Database
    folder: Path
    stage: SumsStage
    port: int

    @property
    def bucket(self) -> Path:
        """The bucket as it lies on the server's disk."""
        return self.folder / "served" / "evidence" / "theatres"

    def store(self) -> AbstractContextManager[ObjectStore]:
        return rclone(self.port, self.folder / "served")

    def pool(self, name: str) -> AbstractContextManager[WorkerPool]:
        """Workers on a machine."""
        variables = {
            **self.stage.variables,
            **ObjectStore(self.port).variables,
            **shared_keys(self.folder / "keys"),
        }
        home = self.folder / name / "home"
        home.mkdir(parents=True)
        url = ObjectStore(self.port).url
        return worker_pool(self.database, home, ECHELON_EVIDENCE_URL=url, **variables)

    def serving(self, name: str, *, works: bool = True) -> AbstractContextManager[Client]:
        settings = settings_for(
            self.database,
            self.folder / name,
            **self.stage.settings,
            evidence_url=ObjectStore(self.port).url,
            worker_in_api=works,
        )
        return served(create_app(settings))


@pytest.fixture
def machines(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    port = free_port()
    for name, value in {**ObjectStore(port).variables, **shared_keys(tmp_path / "keys")}.items():
        monkeypatch.setenv(name, value)
    return Machines(database, tmp_path, sums_stage(tmp_path / "stage", sums(4)), port)


@pytest.fixture
def bucket(machines: Machines) -> Iterator[None]:
    with machines.store():
        yield


def login(client: Client) -> Client:
    reply = client.form("/api/v1/auth/token", username="ada", password=PASSWORD)
    return client.bearing(reply.document["access_token"])


@pytest.mark.usefixtures("bucket")
def test_a_machine_runs_what_another_committed_and_a_third_hands_it_out(machines: Machines) -> None:
    with machines.serving("first", works=False) as first:
        ada = first.registered("ada")
        path = committed(ada, machines.stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
    shutil.rmtree(machines.folder / "first")
    (machines.stage.folder / "sums.jsonl").unlink()
    with machines.serving("second") as second:
        until(lambda: second.get(f"{path}/replay").status == 200, "the end of the run")
        # With the proof of its certificate, the archive stays as it is.
        await_logged(machines.database, 2)
        told = [second.get(f"{path}/{name}") for name in ("evidence-bundle", "replay")]
        certificate = second.get(f"{path}/certificate").document
    shutil.rmtree(machines.folder / "second")
    with machines.serving("third", works=False) as third:
        again = [third.get(f"{path}/{name}") for name in ("evidence-bundle", "replay")]
        assert [(one.status, one.body) for one in again] == [(200, one.body) for one in told]
        assert third.get(f"{path}/evidence-bundle/SHA256SUMS").status == 200
        bundle = machines.folder / "downloaded"
        unpack_bundle(io.BytesIO(again[0].body), bundle)
    assert checked(bundle).consistent
    assert certificate["certificate_id"].encode() in (bundle / "certificate.json").read_bytes()


@pytest.mark.usefixtures("bucket")
def test_bytes_that_are_not_those_that_were_sealed_are_not_handed_out(machines: Machines) -> None:
    with machines.serving("first") as first:
        path = committed(first.registered("ada"), machines.stage.template)
        run(login(first), path)
        sealed = first.get(f"{path}/evidence-bundle").body
    for shelf in ("bundles", "exports"):
        (stored,) = (machines.bucket / shelf).iterdir()
        stored.write_bytes(b"x" * stored.stat().st_size)
    with machines.serving("second") as second:
        for name in ("evidence-bundle", "evidence-bundle/manifest.json", "replay"):
            assert second.get(f"{path}/{name}").slug == "internal-error", name
    with machines.serving("first") as first:
        # It has a copy of what was sealed; what happens to that is noticed, too.
        assert first.get(f"{path}/evidence-bundle").body == sealed
        (copy,) = (machines.folder / "first" / "evidence" / "cache" / "bundles").iterdir()
        copy.write_bytes(b"y" * len(sealed))
        assert first.get(f"{path}/evidence-bundle").slug == "internal-error"


@pytest.mark.usefixtures("bucket")
def test_an_unpacked_file_that_was_changed_is_unpacked_anew(machines: Machines) -> None:
    with machines.serving("first") as first:
        path = committed(first.registered("ada"), machines.stage.template)
        run(login(first), path)
        name = f"{path}/evidence-bundle/template.json"
        template = first.get(name).body
        unpacked = machines.folder / "first" / "evidence" / "cache" / "unpacked"
        (file,) = unpacked.rglob("template.json")
        file.write_bytes(b"{}")
        assert first.get(name).body == template
        (manifest,) = unpacked.rglob("manifest.json")
        manifest.unlink()
        assert first.get(name).body == template


def test_a_store_that_is_away_is_told_and_nothing_is_half_there(machines: Machines) -> None:
    with machines.serving("first") as first:
        ada = first.registered("ada")
        made = ada.post("/api/v1/theatres", {"template_json": machines.stage.template})
        path = made.headers["location"]
        refused = ada.post(f"{path}/commit", b"")
        assert (refused.slug, refused.headers["retry-after"]) == ("not-ready", "1")
        jsonl = {"Content-Type": "application/x-ndjson"}
        assert ada.post("/api/v1/datasets", b"{}\n", headers=jsonl).slug == "not-ready"
        assert ada.get(path).document["state"] == "DRAFT"
        assert machines.database.rows("SELECT sha256 FROM datasets") == []
        with machines.store():
            assert ada.post(f"{path}/commit", b"").status == 200
            assert ada.post("/api/v1/datasets", b"{}\n", headers=jsonl).status == 201


def run_document(client: Client, path: str) -> tuple[str, str | None]:
    document = client.get(path).document
    return document["state"], document["error"]


def test_a_run_whose_store_is_away_waits_says_so_and_goes_on(machines: Machines) -> None:
    with machines.serving("first") as first:
        ada = first.registered("ada")
        with machines.store():
            path = committed(ada, machines.stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["error"] is not None, "the run to say what it lacks")
        state, error = run_document(ada, path)
        assert state == "SETTLING"
        assert str(error).startswith("evidence-store: expected the evidence store to ")
        assert ada.get(path).document["run"]["status"] == "queued"
        for name in ("certificate", "evidence-bundle", "replay"):
            assert ada.get(f"{path}/{name}").slug == "not-found", name
        assert machines.database.rows("SELECT sha256 FROM sealed_bundles") == []
        assert not (machines.bucket / "bundles").exists()
        with machines.store():
            until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
            assert run_document(ada, path) == ("ARCHIVED", None)
            assert_whole(machines, ada, path)
    # Four episodes, each called once.
    assert [number for _, number, _ in machines.stage.calls] == [1, 2, 3, 4]


@pytest.mark.usefixtures("bucket")
def test_a_machine_goes_on_from_what_was_named_and_not_from_what_it_had_sealed(
    machines: Machines,
) -> None:
    with (
        machines.serving("api", works=False) as client,
        machines.pool("first") as first,
        machines.pool("second") as second,
    ):
        ada = client.registered("ada")
        path = committed(ada, machines.stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        # Sealed on the first machine and never named; sealed on the second, and named.
        for pool, point in ((first, "before:sealed"), (second, "after:sealed")):
            worker = pool.fork(point)
            until(partial(is_dead, worker), "the worker to crash")
        first.start()
        until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
        assert_whole(machines, ada, path)
    assert len(list((machines.bucket / "bundles").iterdir())) == 2


def assert_whole(machines: Machines, client: Client, path: str) -> None:
    """The bundle that is handed out is valid, and has the one certificate of the theatre."""
    archive = client.get(f"{path}/evidence-bundle").body
    bundle = machines.folder / "whole"
    unpack_bundle(io.BytesIO(archive), bundle)
    assert checked(bundle).consistent
    rows = machines.database.rows("SELECT document FROM theatre_certificates")
    assert [bytes(row["document"]) + b"\n" for row in rows] == [
        (bundle / "certificate.json").read_bytes()
    ]
