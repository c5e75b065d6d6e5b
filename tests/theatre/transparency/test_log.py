"""A log grows by what is appended, proves each entry, and never signs two trees.

Ten thousand entries, too."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.theatre.transparency.log_conformance import (
    LOG,
    WITNESS,
    LogConformance,
    checkpoint,
    write,
)
from tests.theatre.transparency.log_stage import entries, entry, signer
from tests.theatre.transparency.test_record import committed, void
from theatre.cli import cli
from theatre.files.log_folder import LogFolder
from theatre.files.trust_home import TRUST_HOME, TrustHome
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
    prove_consistency,
    prove_inclusion,
)
from theatre.transparency.merkle import verify_consistency
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


async def test_ten_thousand_entries_are_proved_exported_and_followed_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST_HOME, str(tmp_path / "home"))
    home = TrustHome(tmp_path / "home")
    trust = home.open(issuer="me", at=datetime(2026, 11, 23, tzinfo=UTC))
    logged = pairs(10_000)
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    roots = {0: writer.tree.root}
    for start in range(0, len(logged), 1000):
        appended = await writer.append(logged[start : start + 1000])
        assert appended.indices == tuple(range(start, start + 1000))
        roots[appended.size] = writer.tree.root
    for index in range(0, len(logged), 487):
        proof = await prove_inclusion(home.log, index, writer.checkpoint)
        assert proof.verify(logged[index], trust.policy).checkpoint.root == writer.tree.root
    for old, root in roots.items():
        hashes = await prove_consistency(home.log, old, 10_000)
        verify_consistency(
            old=old, old_root=root, new=10_000, new_root=writer.tree.root, proof=hashes
        )
    public = tmp_path / "public"
    command = ["monitor", str(public), "--trust", str(public / "trust.json")]
    await asyncio.to_thread(echelon, "log", "export", str(public))
    printed = await asyncio.to_thread(echelon, *command, "--construct", "observer", "--json")
    report = json.loads(printed)
    assert (report["new_entries"], report["faults"], report["overdue"]) == (10_000, [], [])
    assert report["record"]["void"] == {"cancelled": 5_000}


def pairs(count: int) -> list[bytes]:
    """Return entries as runs make them: a commitment, and what closes it."""
    runs = ((committed(f"{at}"), void(f"{at}", at)) for at in range(0, count, 2))
    return [one for run in runs for one in run]


def echelon(*arguments: str) -> str:
    """Run a command to its good end; return what it printed."""
    ended = CliRunner().invoke(cli, arguments)
    assert ended.exception is None, ended.output
    return ended.stdout
