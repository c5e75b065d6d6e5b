"""Ten thousand entries: appended, proved, exported, and followed from nothing."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.theatre.transparency.test_record import committed, void
from theatre.cli import cli
from theatre.files.trust_home import TRUST_HOME, TrustHome
from theatre.transparency.log import LogWriter, prove_consistency, prove_inclusion
from theatre.transparency.merkle import verify_consistency

pytestmark = pytest.mark.anyio


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
