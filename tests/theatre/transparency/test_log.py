"""A log grows by what is appended, proves each entry, and never signs two trees."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.theatre.transparency.log_stage import entries, entry, signer
from theatre.files.log_folder import LogFolder
from theatre.transparency.errors import (
    LogForkError,
    MalformedError,
    ProofError,
    QuorumError,
    SignatureError,
)
from theatre.transparency.log import (
    Appended,
    Follower,
    LogWriter,
    ask_witness,
    check_files,
    prove_consistency,
    prove_inclusion,
)
from theatre.transparency.merkle import verify_consistency
from theatre.transparency.notes import (
    Checkpoint,
    KeyKind,
    SignedCheckpoint,
    cosign_text,
)
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof, WitnessRequest

pytestmark = pytest.mark.anyio

LOG = signer("log.example/1")
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
POLICY = Policy.parse(f"log {LOG.key}\nquorum none\n".encode())
WITNESSED = Policy.parse(f"log {LOG.key}\nwitness w {WITNESS.key}\nquorum w\n".encode())


async def append(folder: Path, start: int, end: int) -> Appended:
    """Append numbered entries in a process's life of their own."""
    store = LogFolder(folder)
    async with store.hold():
        writer = LogWriter(store, LOG.key, LOG.sign)
        await writer.open()
        return await writer.append(entries(start, end))


def checkpoint(data: bytes) -> Checkpoint:
    """Return what a signed checkpoint of the log says."""
    return SignedCheckpoint.verify(data, [LOG.key]).checkpoint


async def test_every_entry_is_proved_in_every_later_checkpoint(tmp_path: Path) -> None:
    """One batch a life of the writer: what it knows it has read from the folder."""
    signed = [
        (await append(tmp_path, *batch)).checkpoint for batch in [(0, 3), (3, 300), (300, 700)]
    ]
    store = LogFolder(tmp_path)
    for data in signed:
        for index in {0, 2, checkpoint(data).size - 1}:
            proof = LogProof.parse(bytes(await prove_inclusion(store, index, data)))
            assert proof.verify(entry(index), POLICY).checkpoint == checkpoint(data)
            with pytest.raises(ProofError):
                proof.verify(entry(index + 1), POLICY)
    old, new = checkpoint(signed[0]), checkpoint(signed[2])
    verify_consistency(
        old=old.size,
        old_root=old.root,
        new=new.size,
        new_root=new.root,
        proof=await prove_consistency(store, old.size, new.size),
    )
    assert await check_files(store, new.size) == new.root


async def test_an_entry_that_is_logged_keeps_its_place(tmp_path: Path) -> None:
    first = await append(tmp_path, 0, 5)
    again = await append(tmp_path, 3, 7)
    assert (first.indices, again.indices, again.size) == ((0, 1, 2, 3, 4), (3, 4, 5, 6), 7)
    assert (await append(tmp_path, 0, 7)).checkpoint == again.checkpoint


async def test_a_batch_with_one_entry_twice_logs_it_once(tmp_path: Path) -> None:
    store = LogFolder(tmp_path)
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    appended = await writer.append([entry(1), entry(2), entry(1)])
    assert (appended.indices, appended.size) == ((0, 1, 0), 2)


async def test_writers_take_turns(tmp_path: Path) -> None:
    await asyncio.gather(*(append(tmp_path, start, start + 40) for start in range(0, 400, 40)))
    store = LogFolder(tmp_path)
    follower, seen = Follower(), []
    async for _, data in follower.entries(store, checkpoint(await store.read("checkpoint"))):
        seen.append(data)
    assert sorted(seen) == sorted(entries(0, 400))


async def test_a_second_writer_that_holds_no_lock_is_refused(tmp_path: Path) -> None:
    await append(tmp_path, 0, 2)
    first, second = (LogWriter(LogFolder(tmp_path), LOG.key, LOG.sign) for _ in range(2))
    await first.open()
    await second.open()
    await first.append([entry(2)])
    with pytest.raises(LogForkError, match="expected one writer"):
        await second.append([entry(3)])


async def test_a_log_whose_tiles_were_changed_signs_nothing(tmp_path: Path) -> None:
    await append(tmp_path, 0, 5)
    tile = tmp_path / "tile" / "0" / "000.p" / "5"
    tile.write_bytes(bytes(32) + tile.read_bytes()[32:])
    with pytest.raises(LogForkError, match="expected tiles with the signed root of 5 entries"):
        await append(tmp_path, 5, 6)


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


async def test_a_proof_with_cosignatures_meets_a_quorum(tmp_path: Path) -> None:
    store = LogFolder(tmp_path)
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    await writer.append(entries(0, 3))
    text = str(checkpoint(writer.checkpoint))
    proof = await prove_inclusion(store, 1, writer.checkpoint)
    with pytest.raises(QuorumError, match="expected the witnesses of w, got cosignatures: none"):
        proof.verify(entry(1), WITNESSED)
    cosigned = await writer.add_cosignatures(
        [cosign_text(text, WITNESS.key, WITNESS.sign, at=1_800_000_000)]
    )
    proof = await prove_inclusion(store, 1, cosigned)
    assert proof.verify(entry(1), WITNESSED).cosigned == {WITNESS.key: 1_800_000_000}
    assert await store.read("checkpoint") == cosigned


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
