"""Uploads that break off in their middle: nothing is half there, and sending goes on."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from backend.errors import EvidenceDamagedError, EvidenceStoreError
from backend.evidence_store import EvidenceStore, ObjectKind
from backend.evidence_store.parts import PART_BYTES
from tests.backend.object_stores import ObjectStore, free_port, moto, rclone
from tests.backend.store_relay import StoreRelay
from tests.theatre.echelon_process import REPOSITORY, until

CONTENT = b"".join(bytes([number]) * 257 for number in range(256)) * 265
"""Three parts of it, the last one short; none is like another."""
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ALL = {f"{number:05d}" for number in range(-(-len(CONTENT) // PART_BYTES))}
SENDS = """
import pathlib, sys
from backend.evidence_store import EvidenceStore, ObjectKind
url, home, source = sys.argv[1:]
EvidenceStore(url, pathlib.Path(home)).put(ObjectKind.BUNDLES, pathlib.Path(source))
"""
Serving = Callable[[int], AbstractContextManager[ObjectStore]]


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """The server that is quick to start, and whose objects outlive it."""
    return partial(rclone, folder=tmp_path / "served")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


@dataclass(frozen=True, slots=True)
class Way:
    """A store, and the relay through which it reaches its server."""

    store: EvidenceStore
    relay: StoreRelay
    url: str


@pytest.fixture
def way(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Way]]:
    """Make a new way to the server: one that was broken off stays so for whoever still uses it."""
    with ExitStack() as stack:

        def made() -> Way:
            relay = stack.enter_context(StoreRelay(port).running())
            there = ObjectStore(relay.port)
            for name, value in there.variables.items():
                monkeypatch.setenv(name, value)
            return Way(EvidenceStore(there.url, tmp_path / "home"), relay, there.url)

        yield made


def parts_of(server: ObjectStore) -> set[str]:
    """The whole parts that are in the bucket, by number."""
    sizes = {key.rpartition("/")[2]: size for key, size in server.sizes().items()}
    last = len(CONTENT) % PART_BYTES
    return {one for one in ALL if sizes.get(one) == (last if one == max(ALL) else PART_BYTES)}


def breaking_off(relay: StoreRelay, after: int, what: Callable[[], None]) -> None:
    """Let so many parts through, and do something in place of the next one."""
    admitted: list[str] = []

    def judge(method: str, path: str) -> bool:
        if method != "PUT":
            return True
        if len(admitted) == after:
            what()
            relay.judge = lambda *_: False
            return False
        admitted.append(path)
        return True

    relay.judge = judge


def assert_goes_on(way: Way, source: Path, there: set[str]) -> None:
    """What is there is not sent again, and the whole is what it was."""
    kept = way.store.put(ObjectKind.BUNDLES, source)
    assert (kept.name, kept.size_bytes) == (SHA256, len(CONTENT))
    sent = {key.rpartition("/")[2] for key in way.relay.put()}
    assert sent == (ALL - there) | {f"{SHA256}.parts"}
    assert way.store.fetch(ObjectKind.BUNDLES, SHA256).read_bytes() == CONTENT
    way.store.verify(ObjectKind.BUNDLES, SHA256)
    assert [one[:2] for one in way.store.list_objects(ObjectKind.BUNDLES)] == [
        (SHA256, len(CONTENT))
    ]


def assert_nothing_visible(store: EvidenceStore) -> None:
    assert store.find(ObjectKind.BUNDLES, SHA256) is None
    assert list(store.list_objects(ObjectKind.BUNDLES)) == []
    for read in (store.fetch, store.verify):
        with pytest.raises(EvidenceDamagedError) as caught:
            read(ObjectKind.BUNDLES, SHA256)
        assert caught.value.found is None


@pytest.mark.parametrize("maker", ["moto", "rclone"])
def test_an_upload_whose_sender_is_killed_in_its_middle_is_gone_on_with(
    maker: str, port: int, serving: Serving, way: Callable[[], Way], source: Path, tmp_path: Path
) -> None:
    with (moto if maker == "moto" else serving)(port) as server:
        broken = way()
        arguments = [broken.url, str(tmp_path / "home"), str(source)]
        with subprocess.Popen(
            [sys.executable, "-c", SENDS, *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        ) as sender:
            breaking_off(broken.relay, 1, sender.kill)
            assert sender.wait() == -signal.SIGKILL
        # The relay passes on what it let through, though nobody listens any more.
        until(lambda: len(parts_of(server)) == 1, "the part that was let through")
        mended = way()
        assert_nothing_visible(mended.store)
        assert_goes_on(mended, source, parts_of(server))


def test_an_upload_whose_server_is_killed_in_its_middle_is_told_and_gone_on_with(
    port: int, serving: Serving, way: Callable[[], Way], source: Path
) -> None:
    broken = way()
    with serving(port) as server:
        breaking_off(broken.relay, 2, server.kill)
        with pytest.raises(EvidenceStoreError, match="see that it is reachable"):
            broken.store.put(ObjectKind.BUNDLES, source)
    mended = way()
    with pytest.raises(EvidenceStoreError):
        mended.store.find(ObjectKind.BUNDLES, SHA256)
    with serving(port) as server:
        assert_nothing_visible(mended.store)
        assert_goes_on(mended, source, parts_of(server))


def test_what_nobody_goes_on_with_is_cleaned_up_and_nothing_else(
    port: int, serving: Serving, way: Callable[[], Way], source: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(CONTENT[1:])
    with serving(port) as server:
        broken = way()
        whole = broken.store.put(ObjectKind.DATASETS, other)
        before = set(server.sizes())
        breaking_off(broken.relay, 1, lambda: None)
        with pytest.raises(EvidenceStoreError):
            broken.store.put(ObjectKind.BUNDLES, source)
        store = way().store
        assert set(server.sizes()) > before
        now = datetime.now(UTC)
        assert store.remove_broken_uploads(before=now - timedelta(hours=1)) == 0
        assert set(server.sizes()) > before
        assert store.remove_broken_uploads(before=now + timedelta(hours=1)) == 1
        assert set(server.sizes()) == before
        store.verify(ObjectKind.DATASETS, whole.name)
        store.remove(ObjectKind.DATASETS, whole.name)
        assert server.sizes() == {}


def test_an_object_that_has_lost_a_part_is_missing_and_can_be_kept_anew(
    port: int, serving: Serving, way: Callable[[], Way], source: Path
) -> None:
    with serving(port) as server:
        way().store.put(ObjectKind.BUNDLES, source)
        server.remove(f"parts/bundles/{SHA256}/00001")
        again = way()
        with pytest.raises(EvidenceDamagedError, match="got none"):
            again.store.verify(ObjectKind.BUNDLES, SHA256)
        assert_goes_on(again, source, ALL - {"00001"})
