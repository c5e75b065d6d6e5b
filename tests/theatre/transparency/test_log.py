"""A log grows by what is appended, proves each entry, and never signs two trees."""

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.theatre.transparency.log_conformance import (
    LOG,
    WITNESS,
    LogConformance,
    checkpoint,
    write,
)
from tests.theatre.transparency.log_stage import entries, entry, signer
from theatre.files.log_folder import LogFolder
from theatre.transparency.errors import (
    LogForkError,
    MalformedError,
    ProofError,
    QuorumError,
    SignatureError,
)
from theatre.transparency.log import Appended, Follower, LogWriter, ask_witness, prove_inclusion
from theatre.transparency.notes import Checkpoint, KeyKind, cosign_text
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof, WitnessRequest

pytestmark = pytest.mark.anyio

WITNESSED = Policy.parse(f"log {LOG.key}\nwitness w {WITNESS.key}\nquorum w\n".encode())


class TestLogFolder(LogConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "log"

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[LogFolder]:
        store = LogFolder(self.folder)
        async with store.hold():
            yield store

    @contextlib.asynccontextmanager
    async def unlocked(self) -> AsyncIterator[LogFolder]:
        yield LogFolder(self.folder)

    async def change_a_tile(self) -> None:
        tile = self.folder / "tile" / "0" / "000.p" / "5"
        tile.write_bytes(bytes(32) + tile.read_bytes()[32:])


async def append(folder: Path, start: int, end: int) -> Appended:
    """Append numbered entries in a process's life of their own."""
    store = LogFolder(folder)
    async with store.hold():
        return await write(store, start, end)


async def test_what_was_signed_is_published_after_a_crash(tmp_path: Path) -> None:
    """The last thing before a checkpoint is public is that it is durable as the log's state."""
    first = await append(tmp_path, 0, 5)
    second = await append(tmp_path, 5, 6)
    (tmp_path / "checkpoint").write_bytes(first.checkpoint)
    await append(tmp_path, 0, 1)
    assert (tmp_path / "checkpoint").read_bytes() == second.checkpoint


async def test_a_restored_copy_that_went_on_is_a_fork_to_who_followed(tmp_path: Path) -> None:
    """Both continue the same tree with the same key, and each alone looks right."""
    await append(tmp_path / "log", 0, 5)
    shutil.copytree(tmp_path / "log", tmp_path / "restored")
    seen = checkpoint((await append(tmp_path / "log", 5, 9)).checkpoint)
    other = checkpoint((await append(tmp_path / "restored", 20, 26)).checkpoint)
    follower = Follower()
    assert len([_ async for _ in follower.entries(LogFolder(tmp_path / "log"), seen)]) == 9
    short = Checkpoint(seen.origin, 5, seen.root)
    for new, wrong in [(other, "that lead from 9"), (short, "9 entries at least, got 5")]:
        with pytest.raises(LogForkError, match=wrong):
            [_ async for _ in follower.entries(LogFolder(tmp_path / "restored"), new)]
    assert follower.tree.size == 9


async def test_a_request_to_a_witness_is_read_as_it_was_written(tmp_path: Path) -> None:
    await append(tmp_path, 0, 5)
    signed = (await append(tmp_path, 5, 400)).checkpoint
    request = await ask_witness(LogFolder(tmp_path), 5, signed)
    assert WitnessRequest.parse(bytes(request)) == request
    assert bytes(request).startswith(b"old 5\n")


async def test_every_changed_byte_of_a_proof_is_refused(tmp_path: Path) -> None:
    """But for the witness's name and key id, which make it the line of an unknown key."""
    store = LogFolder(tmp_path)
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    await writer.append(entries(0, 5))
    text = str(checkpoint(writer.checkpoint))
    stranger = signer("unknown.example", KeyKind.WITNESS, seed=7)
    lines = [cosign_text(text, one.key, one.sign, at=1_800_000_000) for one in (WITNESS, stranger)]
    data = bytes(await prove_inclusion(store, 2, await writer.add_cosignatures(lines)))
    accepted = []
    for place in range(len(data)):
        for changed in {data[place] ^ 1, data[place] ^ 0x20, ord("A"), ord("\n")} - {data[place]}:
            mutant = data[:place] + bytes([changed]) + data[place + 1 :]
            try:
                LogProof.parse(mutant).verify(entry(2), WITNESSED)
            except (MalformedError, ProofError, QuorumError, SignatureError):
                continue
            accepted.append(place)
    begin = data.rindex("— unknown".encode())
    # Three bytes of the dash, a space: a line that begins otherwise is none.
    assert accepted
    assert all(place >= begin + 4 for place in accepted)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"c2sp.org/tlog-proof@v2\nindex 0\n\ncheckpoint",
        b"c2sp.org/tlog-proof@v1\n\ncheckpoint",
        b"c2sp.org/tlog-proof@v1\nindex 00\n\ncheckpoint",
        b"c2sp.org/tlog-proof@v1\nindex 1\nAAAA\n\ncheckpoint",
        b"c2sp.org/tlog-proof@v1\nindex 1\nextra AAAA\n\ncheckpoint",
        b"c2sp.org/tlog-proof@v1\nindex 1\n\xff\n\ncheckpoint",
    ],
)
def test_another_form_is_no_proof(data: bytes) -> None:
    with pytest.raises(MalformedError):
        LogProof.parse(data)
