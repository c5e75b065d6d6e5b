"""The evidence store over a folder and over real servers: kept, verified, and honest when away."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.errors import EvidenceDamagedError, EvidenceStoreError, SettingsError
from backend.evidence_store import EvidenceStore, ObjectKind
from tests.backend.object_stores import ObjectStore, free_port, moto, rclone

SMALL = b'{"episode_id":"one"}\n'
LARGE = bytes(range(256)) * 50_000
"""12.8 MB: sent in several parts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects are kept; machines that share it have homes of their own."""

    url: str
    folder: Path
    server: ObjectStore | None = None

    def machine(self, name: str) -> EvidenceStore:
        return EvidenceStore(self.url, self.folder / name)

    def damage(self, key: str, content: bytes) -> None:
        """Put other bytes under a key, past the store."""
        if self.server is None:
            (self.folder / "shared" / key).write_bytes(content)
        else:
            self.server.put(key, content)


@pytest.fixture(scope="module")
def moto_server() -> Iterator[ObjectStore]:
    with moto(free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def rclone_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with rclone(free_port(), tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(params=["folder", "moto", "rclone"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "folder":
        return Place((tmp_path / "shared").as_uri(), tmp_path)
    server: ObjectStore = request.getfixturevalue(f"{request.param}_server")
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    # A prefix of its own: the servers live as long as the module.
    own = ObjectStore(server.port, prefix=tmp_path.name)
    return Place(own.url, tmp_path, own)


def written(folder: Path, content: bytes) -> Path:
    source = folder / "source"
    source.write_bytes(content)
    return source


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_what_one_machine_keeps_every_other_one_brings(place: Place, content: bytes) -> None:
    kept = place.machine("first").put(ObjectKind.BUNDLES, written(place.folder, content))
    assert (kept.name, kept.size_bytes) == (sha256(content), len(content))
    other = place.machine("second")
    assert other.fetch(ObjectKind.BUNDLES, kept.name).read_bytes() == content
    assert [one.name for one in other.list_objects(ObjectKind.BUNDLES)] == [kept.name]
    assert list(other.list_objects(ObjectKind.EXPORTS)) == []


def test_the_same_bytes_again_are_not_sent_again(place: Place) -> None:
    store, source = place.machine("first"), written(place.folder, SMALL)
    first = store.put(ObjectKind.DATASETS, source)
    # Told by what the server notes, which would be another moment or another tag.
    assert store.put(ObjectKind.DATASETS, source) == first


def test_other_bytes_under_a_hash_are_never_handed_out(place: Place) -> None:
    kept = place.machine("first").put(ObjectKind.BUNDLES, written(place.folder, SMALL))
    place.damage(f"bundles/{kept.name}", b"x" * len(SMALL))
    other = place.machine("second")
    for read in (other.fetch, other.verify):
        with pytest.raises(EvidenceDamagedError, match=kept.name) as caught:
            read(ObjectKind.BUNDLES, kept.name)
        assert caught.value.found == sha256(b"x" * len(SMALL))


def test_what_is_not_there_is_missing_and_not_unreachable(place: Place) -> None:
    store = place.machine("first")
    absent = sha256(b"absent")
    assert store.find(ObjectKind.DATASETS, absent) is None
    for read in (store.fetch, store.verify):
        with pytest.raises(EvidenceDamagedError, match="got none") as caught:
            read(ObjectKind.DATASETS, absent)
        assert caught.value.found is None
    store.remove(ObjectKind.DATASETS, absent)


def test_a_removed_object_is_gone_here_and_there(place: Place) -> None:
    store = place.machine("first")
    kept = store.put(ObjectKind.DATASETS, written(place.folder, SMALL))
    store.fetch(ObjectKind.DATASETS, kept.name)
    store.remove(ObjectKind.DATASETS, kept.name)
    for machine in (store, place.machine("second")):
        with pytest.raises(EvidenceDamagedError):
            machine.fetch(ObjectKind.DATASETS, kept.name)


@pytest.mark.parametrize("name", ["../etc/passwd", "", "AB" * 32, "ab" * 31])
def test_only_hashes_are_ever_made_into_keys(tmp_path: Path, name: str) -> None:
    store = EvidenceStore(None, tmp_path)
    for read in (store.fetch, store.verify):
        with pytest.raises(EvidenceDamagedError, match="64 lower-case hex digits"):
            read(ObjectKind.DATASETS, name)


@pytest.mark.parametrize("url", ["file://elsewhere/folder", "s3://"])
def test_an_address_that_is_none_is_refused_by_the_name_of_its_setting(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(SettingsError, match="ECHELON_EVIDENCE_URL"):
        EvidenceStore(url, tmp_path)


def test_a_server_that_is_away_is_told_and_what_failed_succeeds_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, source = free_port(), written(tmp_path, SMALL)
    for name, value in ObjectStore(port).variables.items():
        monkeypatch.setenv(name, value)
    store = EvidenceStore(ObjectStore(port).url, tmp_path / "home")
    with pytest.raises(EvidenceStoreError, match="see that it is reachable"):
        store.put(ObjectKind.BUNDLES, source)
    with rclone(port, tmp_path / "served"):
        kept = store.put(ObjectKind.BUNDLES, source)
        own = store.fetch(ObjectKind.BUNDLES, kept.name)
    # A verified copy needs no server; one that was changed does, and is not handed out.
    assert store.fetch(ObjectKind.BUNDLES, kept.name) == own
    own.write_bytes(b"x" * len(SMALL))
    with pytest.raises(EvidenceStoreError):
        store.fetch(ObjectKind.BUNDLES, kept.name)
    with rclone(port, tmp_path / "served"):
        assert store.fetch(ObjectKind.BUNDLES, kept.name).read_bytes() == SMALL


FILLS_THE_DISK = """
import pathlib, resource, sys
from backend.errors import EvidenceStoreError
from backend.evidence_store import EvidenceStore, ObjectKind
home, source = map(pathlib.Path, sys.argv[1:])
store = EvidenceStore(None, home)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
try:
    store.put(ObjectKind.BUNDLES, source)
except EvidenceStoreError as error:
    print(error)
assert list(store.list_objects(ObjectKind.BUNDLES)) == []
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.put(ObjectKind.BUNDLES, source).name)
"""


def test_a_disk_that_is_full_shows_nothing_half_and_takes_it_when_there_is_room(
    tmp_path: Path,
) -> None:
    # A limit on the size of files stands in for the disk: both refuse a write in its middle.
    source = written(tmp_path, LARGE)
    arguments = [sys.executable, "-c", FILLS_THE_DISK, str(tmp_path / "home"), str(source)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, env=os.environ)
    refusal, name = done.stdout.splitlines()
    assert refusal.startswith("expected the evidence store to keep an object, got ")
    assert name == sha256(LARGE)
