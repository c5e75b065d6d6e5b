"""An operator with all keys tries to cheat, and each time a monitor, a witness or a reader sees it.

Source: docs/contract/trust.md §4, §5.
"""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.signer import CryptoSigner
from yarl import URL

from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.loopback_log import files_below, serving, witness_in
from tests.theatre.transparency.test_record import certified, committed, void
from theatre.api.log_network import gather_cosignatures
from theatre.cli import cli
from theatre.cli.exits import CommandEndedError
from theatre.engine.canonical_json import canonical_line
from theatre.files.log_folder import LogFolder
from theatre.oracles.http_client import Connection, HttpClient
from theatre.transparency.errors import LogForkError, ProofError, SignatureError
from theatre.transparency.log import LogWriter, prove_inclusion
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy
from theatre.transparency.policy import Witness as NamedWitness
from theatre.transparency.proofs import WitnessRequest
from theatre.transparency.statements import (
    IssuerKey,
    SignedStatement,
    certificate_statement,
    sign_statement,
)
from theatre.transparency.witness import Witness

pytestmark = pytest.mark.anyio

LOG = signer("log.example/1")
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
POLICED = Witness(WITNESS.key, WITNESS.sign, {"log.example/1": [LOG.key]})
BAD, GOOD = committed("bad", close_by="2027-12-23"), committed("good", close_by="2027-12-23")


async def logged(folder: Path, *entries: bytes) -> LogWriter:
    """Append to a log as its operator does, who has every key."""
    store = LogFolder(folder)
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    await writer.append(entries)
    return writer


async def monitored(place: str, home: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run `echelon monitor` as a stranger does, with what he has seen before in `home`."""
    arguments = ["monitor", place, "--log", str(LOG.key), "--home", str(home), "--json", *options]
    ended = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    code = ended.exception.code if isinstance(ended.exception, CommandEndedError) else 0
    return code, json.loads(ended.output)


def evidence_in(folder: Path) -> set[str]:
    """Return the names of the checkpoints that a monitor kept of a fork."""
    return {path.name for path in folder.rglob("fork-*/*")}


async def test_a_bad_run_that_is_dropped_is_seen_by_a_monitor(tmp_path: Path) -> None:
    """The operator writes his whole log again without the run that failed, and signs that."""
    await logged(tmp_path / "log", BAD, void("bad", 0), GOOD, certified("good", 2))
    async with serving(files_below(tmp_path / "log")) as url:
        code, report = await monitored(url, tmp_path / "seen", "--construct", "observer")
        assert (code, report["record"]["void"]) == (0, {"cancelled": 1})
        shutil.rmtree(tmp_path / "log")
        await logged(
            tmp_path / "log", GOOD, certified("good", 0), *(committed(f"{n}") for n in range(3))
        )
        code, report = await monitored(url, tmp_path / "seen")
    assert code == 10
    assert "the log was rewritten" in report["fork"]
    assert evidence_in(tmp_path) == {"seen", "shown"}


async def test_a_run_that_is_never_closed_is_overdue_to_a_monitor(tmp_path: Path) -> None:
    await logged(tmp_path / "log", committed("bad", close_by="2020-01-01"), GOOD)
    _, report = await monitored(str(tmp_path / "log"), tmp_path / "seen")
    overdue = report["overdue"]
    assert [(one["theatre_id"], one["index"]) for one in overdue] == [("bad", 0)]


async def test_a_commitment_that_is_logged_after_its_certificate_is_seen(tmp_path: Path) -> None:
    """Backdating: the commitment that should have been first can only be appended."""
    await logged(tmp_path / "log", certified("good", 1), GOOD)
    code, report = await monitored(str(tmp_path / "log"), tmp_path / "seen")
    (fault,) = report["faults"]
    assert (code, fault["index"], fault["code"]) == (10, 0, "closes-nothing")


async def test_an_index_that_is_used_twice_is_seen(tmp_path: Path) -> None:
    await logged(tmp_path / "log", BAD, GOOD, certified("good", 1), certified("bad", 1))
    _, report = await monitored(str(tmp_path / "log"), tmp_path / "seen")
    assert [(one["index"], one["code"]) for one in report["faults"]] == [(3, "closes-nothing")]


async def test_two_trees_for_two_readers_are_seen_with_a_witness(tmp_path: Path) -> None:
    """Each tree alone is in order; the witness has seen one of them."""
    shown, other = tmp_path / "shown", tmp_path / "other"
    await logged(shown, GOOD)
    shutil.copytree(shown, other)
    writer = await logged(shown, void("good", 0))
    await logged(other, certified("good", 0))
    async with serving(witness_in(tmp_path / "w", POLICED)) as url:
        lines, missing = await gather_cosignatures(
            LogFolder(shown), writer.checkpoint, [NamedWitness(WITNESS.key, url)]
        )
        assert (len(lines), missing) == (1, [])
        honest, _ = await monitored(str(shown), tmp_path / "one", "--witness", url)
        fooled, report = await monitored(str(other), tmp_path / "two", "--witness", url)
        second = await LogFolder(other).read("checkpoint")
        with pytest.raises(LogForkError, match=r"what witness\.example has seen, got another tree"):
            await gather_cosignatures(LogFolder(other), second, [NamedWitness(WITNESS.key, url)])
    assert (honest, fooled) == (0, 10)
    assert "that do not go with the 2 shown here" in report["fork"]
    (kept,) = (tmp_path / "w" / "evidence").iterdir()
    assert (kept / "shown").read_bytes() == second
    assert (kept / "seen").read_bytes().startswith(writer.checkpoint)


async def status_of(response: Connection) -> int:
    """Return the status of an answer."""
    return response.status


async def test_a_stranger_with_wrong_proofs_accuses_no_log_and_fills_no_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checkpoints are public: with a proof that is none, anyone can send a good one."""
    log = tmp_path / "log"
    writer = await logged(log, GOOD)
    async with serving(witness_in(tmp_path / "w", POLICED)) as url:
        witness = NamedWitness(WITNESS.key, url)
        await gather_cosignatures(LogFolder(log), writer.checkpoint, [witness])
        later = (await logged(log, void("good", 0))).checkpoint
        async with contextlib.aclosing(HttpClient()) as client:
            for proof in range(3):
                junk = bytes(WitnessRequest(1, (bytes([proof]) * 32,), later))
                status = await client.ask(
                    "POST", URL(f"{url}/add-checkpoint"), read=status_of, headers={}, body=junk
                )
                assert status == 422
        lines, _ = await gather_cosignatures(LogFolder(log), later, [witness])
    assert len(lines) == 1
    assert len(list((tmp_path / "w" / "evidence").iterdir())) == 1
    assert "showed two" not in capsys.readouterr().err


async def test_an_older_tree_for_a_reader_is_seen_with_a_witness(tmp_path: Path) -> None:
    """The log hides its newest entry from one reader."""
    await logged(tmp_path / "log", GOOD)
    shutil.copytree(tmp_path / "log", tmp_path / "old")
    writer = await logged(tmp_path / "log", void("good", 0))
    async with serving(witness_in(tmp_path / "w", POLICED)) as url:
        await gather_cosignatures(
            LogFolder(tmp_path / "log"), writer.checkpoint, [NamedWitness(WITNESS.key, url)]
        )
        code, report = await monitored(str(tmp_path / "old"), tmp_path / "seen", "--witness", url)
    assert code == 10
    assert "the witness has seen 2 entries" in report["fork"]


async def test_a_certificate_that_is_changed_after_issue_is_seen_by_a_reader(
    tmp_path: Path,
) -> None:
    """Signed again with the true key, it is another statement than the one that is logged."""
    private = ec.derive_private_key(19, ec.SECP256R1())
    key = IssuerKey.of(private.public_key())
    issuer = CryptoSigner(private, key.verifier)
    issued = certificate_statement({"evidence_bundle_hash": "ab" * 32, "score": 0.4}, None)
    changed = certificate_statement({"evidence_bundle_hash": "ab" * 32, "score": 0.9}, None)
    entry = certified("good", 0)
    sha256 = SignedStatement.verify(sign_statement(issued, issuer), [key]).sha256
    entry = entry.replace(b"ab" * 32, sha256.encode())
    writer = await logged(tmp_path, GOOD, entry)
    proof = await prove_inclusion(LogFolder(tmp_path), 1, writer.checkpoint)
    policy = Policy({LOG.key: None})
    proof.verify(entry, policy)
    other = SignedStatement.verify(sign_statement(changed, issuer), [key])
    with pytest.raises(ProofError, match="expected a proof of entry 1"):
        proof.verify(entry.replace(sha256.encode(), other.sha256.encode()), policy)
    forged = json.loads(sign_statement(issued, issuer))
    forged["dsseEnvelope"]["payload"] = json.loads(sign_statement(changed, issuer))["dsseEnvelope"][
        "payload"
    ]
    with pytest.raises(SignatureError):
        SignedStatement.verify(canonical_line(forged), [key])
