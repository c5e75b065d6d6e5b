"""A disk that is full in the middle of a run: told, nothing half there, gone on with when freed."""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed
from tests.theatre.echelon_process import until
from tests.theatre.runs import checked
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.files.published_bundle import unpack_bundle

_BALLAST = "ballast"
_PIECE = bytes(64 * 1024)


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system of its own, mounted at `folder`."""

    folder: Path

    def fill(self) -> None:
        """Leave no byte free, nor what is freed meanwhile; to be repeated at leisure."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
            for piece in (_PIECE, _PIECE[:1]):
                with contextlib.suppress(_Full):
                    while True:
                        _write(ballast.fileno(), piece)

    def free(self) -> None:
        """Remove what fills it, and nothing else."""
        (self.folder / _BALLAST).unlink()

    def names(self) -> set[str]:
        """Every file and folder on it but the ballast, by path; some may be gone meanwhile."""
        found = {
            os.path.relpath(Path(folder) / name, self.folder)
            for folder, folders, files in os.walk(self.folder)
            for name in (*folders, *files)
        }
        return found - {_BALLAST}


@contextlib.contextmanager
def small_disk(folder: Path, *, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a small file system at a new folder; skips the test where that is not allowed."""
    folder.mkdir(parents=True)
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a disk that is full needs root on Linux, which may mount a small one")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk that is full needs to be mounted, got {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a process that still has a file open there does not keep it in the tree.
        subprocess.run(["umount", "--lazy", folder], check=True)


class _Full(Exception):  # noqa: N818 - what is looked for, no error
    """There is no room for a piece."""


def _write(handle: int, piece: bytes) -> None:
    try:
        os.write(handle, piece)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from error


PLACES = {
    # Where the bundle is written and sealed.
    "sealing": "home/evidence/theatres",
    # Where its archive, the export and uploads are drafted.
    "drafting": "home/evidence/cache",
    # Where all of them are kept.
    "keeping": "store",
}
TOLD = {
    "sealing": "evidence-disk: expected to write template.json, got No space left on device: ",
    "drafting": "evidence-store: expected the disk to write a draft, got No space left on device: ",
    "keeping": "evidence-store: expected the evidence store to keep an object, got GenericError: ",
}
FAILING = {
    # Where a run is worked on is no part of the store: its theatre alone says that.
    "sealing": [],
    "drafting": ["evidence-store"],
    "keeping": ["evidence-store"],
}
seconds_later = partial(until, pause=0.1)
JSONL = {"Content-Type": "application/x-ndjson"}
UPLOAD = b"".join(b'{"episode_id":"%06d","text":"%s"}\n' % (n, b"x" * 200) for n in range(1000))


@dataclass(frozen=True, slots=True)
class Scene:
    """A service, one of whose folders is a small disk."""

    disk: SmallDisk
    stage: SumsStage
    database: Database
    ada: Client
    path: str

    @property
    def document(self) -> dict[str, object]:
        document: dict[str, object] = self.ada.get(self.path).document
        return document

    def upload(self) -> Reply:
        return self.ada.post("/api/v1/datasets", UPLOAD, headers=JSONL)

    def count(self, table: str) -> int:
        return len(self.database.rows(f"SELECT 1 FROM {table}"))  # noqa: S608 - a test's table


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def scene(place: str, database: Database, tmp_path: Path) -> Iterator[Scene]:
    stage = sums_stage(tmp_path / "stage", sums(4, gate_at=4))
    with small_disk(tmp_path / PLACES[place], mebibytes=4) as disk:
        settings = settings_for(
            database,
            tmp_path / "home",
            **stage.settings,
            evidence_url=(tmp_path / "store").as_uri(),
        )
        with served(create_app(settings)) as client:
            ada = client.registered("ada")
            yield Scene(disk, stage, database, ada, committed(ada, stage.template))


def test_a_run_whose_disk_is_full_says_so_shows_nothing_half_and_ends_when_it_is_freed(
    scene: Scene,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert scene.ada.post(f"{scene.path}/run", b"").status == 202
    until(lambda: len(scene.stage.calls) == 4, "the last call")
    before = scene.disk.names()
    told = str(seconds_later(partial(error_on_a_full_disk, scene), "the run to say what it lacks"))
    assert told.startswith(TOLD[place])
    assert str(tmp_path) not in told
    # Tried again and again: whatever is asked meanwhile, nothing is half there.
    assert_nothing_half(scene, before)
    seconds_later(lambda: failing(scene) == FAILING[place], "the service to say what fails")
    if place != "sealing":
        refused = scene.upload()
        assert (refused.status, refused.slug) == (503, "not-ready")
        assert scene.count("datasets") == 0
        assert_nothing_half(scene, before)
    scene.disk.free()
    seconds_later(lambda: scene.document["state"] == "ARCHIVED", "the end of the run")
    assert (scene.document["outcome"], scene.document["error"]) == ("certified", None)
    assert scene.upload().status == 201
    seconds_later(lambda: failing(scene) == [], "nothing to fail")
    assert [number for _, number, _ in scene.stage.calls] == [1, 2, 3, 4]
    assert_whole(scene, tmp_path)
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_DATABASE_URL", scene.database.application)
    monkeypatch.setenv("ECHELON_EVIDENCE_URL", (tmp_path / "store").as_uri())
    assert run_guarded(cli, ["admin", "fsck", "--json"]) is ExitCode.OK
    assert json.loads(capsys.readouterr().out)["unnamed"] == []


def error_on_a_full_disk(scene: Scene) -> object:
    # What a watch has freed a moment ago is taken, too.
    scene.disk.fill()
    # The last call may not have come to the gate yet.
    scene.stage.let_through()
    return scene.document["error"]


def failing(scene: Scene) -> object:
    return scene.ada.get("/readyz").document.get("failing")


def assert_nothing_half(scene: Scene, before: set[str]) -> None:
    """No row names what is not there, and no file has the name of what is not whole."""
    assert scene.document["state"] in {"ACTIVE", "SETTLING"}
    assert scene.document["certificate_id"] is None
    for table in ("sealed_bundles", "theatre_certificates"):
        assert scene.count(table) == 0
    for name in ("certificate", "evidence-bundle", "evidence-bundle/manifest.json", "replay"):
        assert scene.ada.get(f"{scene.path}/{name}").slug == "not-found", name
    new = {name for name in scene.disk.names() - before if is_whole(name)}
    assert new == set()


def is_whole(name: str) -> bool:
    """Tell whether a new path on the disk is one that a reader would take for a whole object."""
    parts = Path(name).parts
    if parts[0] in {"bundles", "exports", "datasets"}:
        return len(parts) > 1 and "#" not in parts[-1]
    return any(part.startswith("evidence_bundle_") for part in parts)


def assert_whole(scene: Scene, folder: Path) -> None:
    archive = scene.ada.get(f"{scene.path}/evidence-bundle").body
    bundle = folder / "downloaded"
    unpack_bundle(io.BytesIO(archive), bundle)
    assert checked(bundle).consistent
    (row,) = scene.database.rows("SELECT document FROM theatre_certificates")
    assert bytes(row["document"]) + b"\n" == (bundle / "certificate.json").read_bytes()
