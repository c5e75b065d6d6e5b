"""Another log and witness, aics-tlog and aics-witness, go with ours in both directions.

They share no line with ours, and need Python 3.12: `make test` runs this on each such Python that
the machine has (`.ci/reproduce`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.theatre.transparency.log_stage import entries, signer
from tests.theatre.transparency.loopback_log import serving, witness_in
from theatre.api.log_network import gather_cosignatures
from theatre.files.log_folder import LogFolder
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import Follower, LogWriter
from theatre.transparency.notes import KeyKind, SignedCheckpoint, VerifierKey
from theatre.transparency.policy import Witness as NamedWitness
from theatre.transparency.witness import Witness

if TYPE_CHECKING:
    # It is not there on Python 3.11.
    from aics_tlog import MerkleTree

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.reproducibility,
    pytest.mark.skipif(sys.version_info < (3, 12), reason="aics-tlog needs Python 3.12"),
]

# A third level of tiles begins at 65,536.
SIZE = 70_000 if os.environ.get("ECHELON_SOAK") == "1" else 1_000
LOG = signer("log.example/1")
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
THEIR_KEY = Ed25519PrivateKey.from_private_bytes(bytes([3]) * 32)
THEIR_LOG = VerifierKey("their.example", KeyKind.LOG, THEIR_KEY.public_key().public_bytes_raw())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.contextmanager
def their_witness(folder: Path) -> Iterator[NamedWitness]:
    """Run their witness, which follows our log, as a program."""
    config = str(folder / "witness.json")
    theirs("init", "--config", config, "--name", "other.example", "--listen", "127.0.0.1:0")
    theirs("add-log", "--config", config, "--origin", LOG.key.name, "--vkey", str(LOG.key))
    command = [sys.executable, "-m", "aics_witness", "serve", "--config", config]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stderr is not None
            said = ""
            while "listening on" not in said:
                said += process.stderr.readline()
            key = re.search(r"witness vkey (\S+)", said)
            url = re.search(r"listening on (\S+)", said)
            assert key is not None
            assert url is not None
            yield NamedWitness(VerifierKey.parse(key[1]), url[1])
        finally:
            process.terminate()


def theirs(command: str, *arguments: str) -> str:
    """Run a command of their witness to its good end; return what it printed."""
    program = [sys.executable, "-m", "aics_witness", command, *arguments]
    return subprocess.run(program, check=True, capture_output=True, encoding="utf-8").stdout


async def our_log(folder: Path, end: int) -> LogWriter:
    """Return our log with entries up to `end`."""
    writer = LogWriter(LogFolder(folder), LOG.key, LOG.sign)
    await writer.open()
    await writer.append(entries(writer.tree.size, end))
    return writer


async def test_their_witness_cosigns_our_log_and_keeps_the_proof_of_a_fork(tmp_path: Path) -> None:
    with their_witness(tmp_path) as witness:
        for size in (1, 255, 256, 700):
            writer = await our_log(tmp_path / "log", size)
            lines, missing = await gather_cosignatures(
                LogFolder(tmp_path / "log"), writer.checkpoint, [witness]
            )
            assert missing == []
            data = await writer.add_cosignatures(lines)
            signed = SignedCheckpoint.verify(data, [LOG.key], [witness.key])
            assert (signed.checkpoint.size, set(signed.cosigned)) == (size, {witness.key})
        forked = LogWriter(LogFolder(tmp_path / "fork"), LOG.key, LOG.sign)
        await forked.open()
        await forked.append(entries(1000, 1800))
        with pytest.raises(LogForkError, match=r"what other\.example has seen"):
            await gather_cosignatures(LogFolder(tmp_path / "fork"), forked.checkpoint, [witness])
    kept = json.loads(theirs("evidence", "--config", str(tmp_path / "witness.json")))
    assert len(kept) == 1


async def test_our_witness_cosigns_their_log_and_keeps_the_proof_of_a_fork(tmp_path: Path) -> None:
    from aics_tlog import MerkleTree
    from aics_witness.feeder import WitnessRejected

    tree, forked = MerkleTree(), MerkleTree(entries(1000, 1800))
    watching = Witness(WITNESS.key, WITNESS.sign, {THEIR_LOG.name: [THEIR_LOG]})
    async with serving(witness_in(tmp_path / "w", watching)) as url:
        for size in (1, 255, 256, 700):
            tree.extend(entries(tree.size, size))
            data = await asyncio.to_thread(submitted, tree, url)
            signed = SignedCheckpoint.verify(data, [THEIR_LOG], [WITNESS.key])
            assert (signed.checkpoint.size, set(signed.cosigned)) == (size, {WITNESS.key})
        with pytest.raises(WitnessRejected, match="answered 422"):
            await asyncio.to_thread(submitted, forked, url)
    assert len(list((tmp_path / "w" / "evidence").iterdir())) == 1


class TheirTree(Protocol):
    """What is asked of a tree of theirs, in memory or in tiles."""

    @property
    def size(self) -> int: ...
    def root(self) -> bytes: ...


def submitted(tree: MerkleTree, url: str) -> bytes:
    """Sign a tree as their log does, ask our witness, and return the checkpoint with its line."""
    from aics_witness.feeder import WitnessClient, merge_cosignatures

    note = signed_by_them(tree)
    with WitnessClient(url, str(WITNESS.key), max_attempts=1) as client:
        line = client.submit(note, tree.consistency_proof)
    merged: bytes | str = merge_cosignatures(note, line)
    return merged.encode() if isinstance(merged, str) else merged


def signed_by_them(tree: TheirTree) -> bytes:
    from aics_tlog import Checkpoint, sign_checkpoint

    checkpoint = Checkpoint(THEIR_LOG.name, tree.size, tree.root())
    signed: bytes = sign_checkpoint(checkpoint, THEIR_KEY, THEIR_LOG.name).to_bytes()
    return signed


async def test_each_reads_every_tile_and_entry_of_the_other(tmp_path: Path) -> None:
    from aics_tlog import (
        DirectoryTileStore,
        FileSystemTileReader,
        IncrementalTileWriter,
        audit_tiles,
    )

    ours = await our_log(tmp_path / "ours", SIZE)
    reader = FileSystemTileReader(tmp_path / "ours")
    audit = audit_tiles(reader, ours.tree.size, ours.tree.root)
    widths = [-(-(SIZE // 256**level) // 256) for level in range(3)]
    assert (audit.tiles, audit.bundles) == (sum(widths), widths[0])
    store = DirectoryTileStore(tmp_path / "theirs", fsync=False)
    theirs_written = IncrementalTileWriter(store)
    theirs_written.append(entries(0, 700))
    theirs_written.append(entries(700, SIZE))
    assert theirs_written.root() == ours.tree.root
    signed = signed_by_them(theirs_written)
    checkpoint = SignedCheckpoint.verify(signed, [THEIR_LOG]).checkpoint
    found = Follower().entries(LogFolder(tmp_path / "theirs"), checkpoint)
    assert [entry async for _, entry in found] == entries(0, SIZE)
