"""A witness cosigns what continues the last checkpoint it saw, and answers as the protocol asks."""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.theatre.transparency.log_stage import entries, signer
from theatre.files.log_folder import LogFolder
from theatre.transparency.errors import MalformedError
from theatre.transparency.log import LogWriter, ask_witness
from theatre.transparency.merkle import EMPTY_ROOT
from theatre.transparency.notes import Checkpoint, KeyKind, Note, SignedCheckpoint, sign_text
from theatre.transparency.proofs import WitnessRequest
from theatre.transparency.witness import Cosigned, Witness, WitnessRefusedError

pytestmark = pytest.mark.anyio

LOG = signer("log.example/1")
STRANGER = signer("log.example/1", seed=9)
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
POLICED = Witness(WITNESS.key, WITNESS.sign, {"log.example/1": [LOG.key]})


async def grown(folder: Path, start: int, end: int) -> bytes:
    """Append numbered entries and return the signed checkpoint."""
    writer = LogWriter(LogFolder(folder), LOG.key, LOG.sign)
    await writer.open()
    return (await writer.append(entries(start, end))).checkpoint


async def asked(folder: Path, old: int, last: bytes | None) -> Cosigned:
    """Ask for the cosignature of a log's checkpoint."""
    store = LogFolder(folder)
    request = await ask_witness(store, old, await store.read("checkpoint"))
    return POLICED.cosign(WitnessRequest.parse(bytes(request)), last, at=1_800_000_000)


async def test_each_step_of_a_log_is_cosigned(tmp_path: Path) -> None:
    last, sizes = None, [0, 3, 300, 301, 301]
    for old, size in itertools.pairwise(sizes):
        await grown(tmp_path, old, size)
        cosigned = await asked(tmp_path, old, last)
        last = cosigned.checkpoint
        read = SignedCheckpoint.verify(last, [LOG.key], [WITNESS.key])
        assert (read.checkpoint.size, read.cosigned) == (size, {WITNESS.key: 1_800_000_000})


async def test_the_second_of_two_that_restored_one_backup_is_found(tmp_path: Path) -> None:
    await grown(tmp_path / "log", 0, 5)
    last = (await asked(tmp_path / "log", 0, None)).checkpoint
    shutil.copytree(tmp_path / "log", tmp_path / "restored")
    await grown(tmp_path / "log", 5, 8)
    last = (await asked(tmp_path / "log", 5, last)).checkpoint
    await grown(tmp_path / "restored", 50, 54)
    with pytest.raises(WitnessRefusedError) as refused:
        await asked(tmp_path / "restored", 5, last)
    assert (refused.value.status, refused.value.size) == (409, 8)
    with pytest.raises(WitnessRefusedError) as refused:
        await asked(tmp_path / "restored", 8, last)
    shown = await LogFolder(tmp_path / "restored").read("checkpoint")
    assert (refused.value.status, refused.value.evidence) == (422, shown)


def signed_text(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint that the log signed, whatever it says."""
    text = str(checkpoint)
    return bytes(Note(text, (sign_text(text, LOG.key, LOG.sign),)))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (WitnessRequest(0, (), b"not a note"), 400),
        (WitnessRequest(0, (), signed_text(Checkpoint("unknown.example", 0, EMPTY_ROOT))), 404),
        (WitnessRequest(3, (), signed_text(Checkpoint("log.example/1", 2, EMPTY_ROOT))), 400),
        (WitnessRequest(1, (), signed_text(Checkpoint("log.example/1", 2, EMPTY_ROOT))), 409),
        (WitnessRequest(0, (), signed_text(Checkpoint("log.example/1", 0, bytes(32)))), 409),
        (
            WitnessRequest(
                0, (bytes(32),), signed_text(Checkpoint("log.example/1", 2, EMPTY_ROOT))
            ),
            422,
        ),
    ],
)
async def test_the_rest_is_answered_by_the_protocol(request_: WitnessRequest, status: int) -> None:
    with pytest.raises(WitnessRefusedError) as refused:
        POLICED.cosign(request_, None, at=1)
    assert refused.value.status == status


async def test_a_checkpoint_that_a_stranger_signed_is_forbidden() -> None:
    text = str(Checkpoint("log.example/1", 0, EMPTY_ROOT))
    note = bytes(Note(text, (sign_text(text, STRANGER.key, STRANGER.sign),)))
    with pytest.raises(WitnessRefusedError) as refused:
        POLICED.cosign(WitnessRequest(0, (), note), None, at=1)
    assert refused.value.status == 403


@pytest.mark.parametrize("body", [b"", b"old 0\ncheckpoint", b"new 0\n\nx", b"old x\n\nx", b"\xff"])
async def test_another_form_is_no_request(body: bytes) -> None:
    with pytest.raises(MalformedError):
        WitnessRequest.parse(body)
