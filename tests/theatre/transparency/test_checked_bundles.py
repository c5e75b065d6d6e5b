"""A bundle with its proofs, as its reader checks it: with the program, and with one plain file."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from click.testing import CliRunner

from tests.theatre.runs import BEGIN, LATE, ScriptedAdapter, pilot_stage
from tests.theatre.transparency.issued_bundle import (
    EPISODES,
    IN_A_DAY,
    WITNESS,
    IssuedBundle,
    asking_for,
    issue_bundle,
)
from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.loopback_log import files_below, serving
from theatre.api.bundle_proofs import read_reader
from theatre.api.checks import check_folder
from theatre.cli import cli
from theatre.cli.exits import CommandEndedError, exit_code_of
from theatre.engine.bundle_check import plain_notes, standalone
from theatre.engine.bundle_check.plain_json import DefectError
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import canonical_line
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import TheatreError
from theatre.engine.replay import RunContext
from theatre.engine.theatre import Theatre
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import commitment_entry
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import MalformedError
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust

COMMITMENT, STATEMENT, CERTIFICATE, TRUST = (
    "commitment.tlog-proof",
    "certificate.sigstore.json",
    "certificate.tlog-proof",
    "trust.json",
)
SETTLED: dict[str, bool | None] = {
    "signature": True,
    "signer-trusted": True,
    "commitment-logged": True,
    "certificate-logged": True,
    "order": True,
    "witnesses": None,
    "closure": None,
}
OPEN: dict[str, bool | None] = dict.fromkeys(SETTLED)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who checks has no keys of his own, unless a test says so."""
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "no keys"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> IssuedBundle:
    return issue_bundle(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> IssuedBundle:
    """Another theatre's, by the same issuer as `made` is not: other keys, another log."""
    return issue_bundle(tmp_path_factory.mktemp("other"))


@pytest.fixture
def issued(made: IssuedBundle, tmp_path: Path) -> IssuedBundle:
    """A copy that a test may change, with the issuer's keys and log."""
    bundle = shutil.copytree(made.bundle, tmp_path / "bundle")
    home = TrustHome(shutil.copytree(made.home.folder, tmp_path / "issuer"))
    return replace(made, bundle=bundle, home=home)


@dataclass(frozen=True)
class Answer:
    """What a check said: its word and why, and how each line about the proofs ended."""

    word: str
    because: str
    lines: dict[str, bool | None]
    told: dict[str, str]
    unavailable: bool = False


def checked(
    bundle: Path,
    trust: Path | None = None,
    *,
    policy: Path | None = None,
    kept: Path | None = None,
    online: bool = False,
) -> Answer:
    """Ask what `echelon check` asks."""
    reader = None if trust is None else read_reader(trust, policy, bundle)
    report = check_folder(bundle, certificate=kept, reader=reader, online=online)
    proofs = report.checks[-len(SETTLED) :]
    return Answer(
        word=report.verdict.value,
        because=report.because,
        lines={line.id: line.ok for line in proofs},
        told={line.id: line.actual for line in proofs},
        unavailable=bool(report.unavailable),
    )


def checked_alone(
    bundle: Path, trust: Path | None = None, *, policy: Path | None = None, kept: Path | None = None
) -> Answer:
    """Ask what `verify_bundle.py` asks."""
    reader = None
    if trust is not None:
        inside = trust.resolve().is_relative_to(bundle)
        asked = None if policy is None else policy.read_bytes()
        reader = plain_notes.reader_of(trust.read_bytes(), asked, came_with_it=inside)
    copy = None if kept is None else kept.read_bytes()
    verdict = standalone.verify(bundle, now=LATE, kept=copy, reader=reader)
    return Answer(
        word=verdict.word,
        because=verdict.because,
        lines={line.id: line.ok for line in verdict.proofs},
        told={line.id: line.text for line in verdict.proofs},
    )


def both(
    bundle: Path, trust: Path | None = None, *, policy: Path | None = None, kept: Path | None = None
) -> Answer:
    """Ask the program and the plain file, which must agree, and return the program's answer."""
    one = checked(bundle, trust, policy=policy, kept=kept)
    alone = checked_alone(bundle, trust, policy=policy, kept=kept)
    assert (alone.word, alone.lines) == (one.word, one.lines)
    if one.word != "not valid":
        assert alone.because == one.because
    return one


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run `echelon check`; return its exit code and what it prints."""
    result = CliRunner().invoke(cli, ["check", *map(str, arguments)])
    ended = result.exception
    if isinstance(ended, CommandEndedError):
        return ended.code, result.output
    code = exit_code_of(ended) if isinstance(ended, TheatreError) else result.exit_code
    return code, result.output


def test_a_reader_who_has_the_trust_file_sees_all_settled(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    answer = both(issued.bundle, issued.trust_file(tmp_path))
    assert (answer.word, answer.because) == ("valid, logged", "signed by a key of Ada")
    assert answer.lines == SETTLED
    assert answer.told["order"] == "committed at 1, certified at 2"
    assert answer.told["closure"] == "asks the log, give --online"


def test_without_a_trust_file_no_one_vouches_for_it(issued: IssuedBundle) -> None:
    answer = both(issued.bundle)
    assert (answer.word, answer.because) == ("consistent", "no one vouches for it")
    assert answer.lines == OPEN


def test_a_signature_without_a_log_is_valid_and_no_more(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    for name in (COMMITMENT, CERTIFICATE):
        (issued.bundle / "proofs" / name).unlink()
    trust = issued.trust_file(tmp_path)
    answer = both(issued.bundle, trust)
    assert answer.word == "valid"
    assert answer.lines == OPEN | {"signature": True, "signer-trusted": True}


def test_a_kept_certificate_and_a_signature_are_both_told(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_bytes((issued.bundle / "certificate.json").read_bytes())
    trust = issued.trust_file(tmp_path)
    answer = both(issued.bundle, trust, kept=kept)
    assert answer.word == "valid, logged"
    assert answer.because == "equal to the certificate you gave, signed by a key of Ada"


def test_the_author_needs_no_file_for_what_is_his_own(
    issued: IssuedBundle, other: IssuedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(issued.home.folder))
    answer = checked(issued.bundle, online=True)
    assert (answer.word, answer.because) == ("valid, logged", "signed by your own key")
    assert answer.lines == SETTLED | {"closure": True}
    # Another's bundle has nothing to do with his keys: it is not refused by them either.
    assert checked(other.bundle).lines == OPEN
    # A proof of his own log is looked up before there is a signature, and where it is garbage.
    (issued.bundle / "proofs" / STATEMENT).unlink()
    (issued.bundle / "proofs" / CERTIFICATE).unlink()
    begun = checked(issued.bundle)
    assert (begun.word, begun.lines["commitment-logged"]) == ("consistent", True)


def test_a_trust_file_that_came_with_the_bundle_is_not_taken_for_the_readers(
    issued: IssuedBundle, other: IssuedBundle, tmp_path: Path
) -> None:
    """A liar signs with keys of his own and puts his own trust.json next to it."""
    assert both(other.bundle).word == "consistent"
    lied = both(other.bundle, other.bundle / "proofs" / TRUST)
    assert lied.because == (
        "signed by a key of Ada, by the trust.json that came with it: "
        "who trusts that trusts its maker"
    )
    # By way of a link, too; and the true issuer's refuses it.
    link = tmp_path / "link.json"
    link.symlink_to(other.bundle / "proofs" / TRUST)
    assert both(other.bundle, link).because == lied.because
    refused = both(other.bundle, issued.trust_file(tmp_path))
    assert refused.word == "not valid"
    assert refused.lines == OPEN | {"signature": False, "commitment-logged": False}


def test_a_policy_of_the_readers_own_asks_for_witnesses(tmp_path: Path) -> None:
    seen = issue_bundle(tmp_path / "seen", witness=WITNESS)
    trust, policy = seen.trust_file(tmp_path), tmp_path / "policy"
    assert both(seen.bundle, trust).lines == SETTLED
    policy.write_text(asking_for(seen.trust, WITNESS)["policy_text"])
    answer = both(seen.bundle, trust, policy=policy)
    assert answer.lines == SETTLED | {"witnesses": True}
    assert answer.told["witnesses"] == "cosigned by witness.example"
    assert answer.told["signer-trusted"].endswith("(witnessed)")
    stranger = signer("stranger.example", KeyKind.WITNESS, seed=3)
    policy.write_text(asking_for(seen.trust, stranger)["policy_text"])
    answer = both(seen.bundle, trust, policy=policy)
    assert (answer.word, answer.lines) == ("not valid", SETTLED | {"witnesses": False})
    policy.write_text(f"log {signer('log.example').key}\nquorum none\n")
    answer = both(seen.bundle, trust, policy=policy)
    assert answer.lines["commitment-logged"] is False


def test_exit_codes_are_those_of_the_contract(
    issued: IssuedBundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, trust, policy = issued.bundle, issued.trust_file(tmp_path), tmp_path / "policy"

    def codes(*options: str | Path) -> tuple[int, int]:
        alone = standalone.main([str(bundle), *map(str, options)])
        printed = capsys.readouterr().out.splitlines()
        code, output = run(bundle, *options)
        # Both end in the same sentence, but for the number of lines.
        if code in {0, 9}:
            assert printed[-1].rpartition(":")[0] == output.splitlines()[-1].rpartition(":")[0]
        return code, alone

    assert codes("--trust", trust, "--require", "logged") == (0, 0)
    assert codes("--require", "valid") == (9, 9)
    (bundle / "proofs" / CERTIFICATE).unlink()
    assert codes("--trust", trust, "--require", "valid") == (0, 0)
    assert codes("--trust", trust, "--require", "logged") == (9, 9)
    (bundle / "proofs" / STATEMENT).write_bytes(b"{}")
    assert codes("--trust", trust) == (10, 10)
    policy.write_text("quorum\n")
    assert codes("--trust", trust, "--policy", policy) == (5, 5)
    assert run(bundle, "--policy", policy)[0] == 2
    with pytest.raises(SystemExit):
        standalone.main([str(bundle), "--policy", str(policy)])
    assert run(bundle, "--trust", trust, "--online")[0] == 10


def test_the_one_file_does_it_with_openssl_and_nothing_installed(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    program = tmp_path / "verify_bundle.py"
    program.write_text(verifier_source())
    trust = issued.trust_file(tmp_path)
    command: list[str | Path] = [sys.executable, "-I", "-S", program, issued.bundle]
    done = subprocess.run(
        [*command, "--trust", trust, "--require", "logged"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("valid, logged (signed by a key of Ada): 32 checks\n")
    assert ", by openssl\n" in done.stdout


def test_no_name_forges_a_line(
    issued: IssuedBundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trust = issued.trust_file(tmp_path, issuer="Ada\nvalid, logged (by all): 38 checks\x1b[2J")
    standalone.main([str(issued.bundle), "--trust", str(trust)])
    for output in (capsys.readouterr().out, run(issued.bundle, "--trust", trust)[1]):
        assert output.count("\nvalid, logged (") == 1
        assert "Ada?valid, logged" in output
        assert "\x1b" not in output


def test_a_script_gets_one_document(issued: IssuedBundle, tmp_path: Path) -> None:
    code, output = run(issued.bundle, "--trust", issued.trust_file(tmp_path), "--json")
    said = json.loads(output)
    assert (code, said["verdict"], said["valid"]) == (0, "valid, logged", True)
    proofs = said["checks"][-len(SETTLED) :]
    assert {line["id"]: line["ok"] for line in proofs} == SETTLED
    assert {line["status"] for line in proofs} == {"pass", "unanchored"}


def with_nonce(nonce: bytes) -> Callable[[RunContext], RunContext]:
    return lambda around: replace(around, run_nonce=nonce)


def test_a_run_that_began_before_its_commitment_was_logged_is_refused(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    """The draws hold no nonce, or another's: with the same commitment, data and coin."""
    trust = issued.trust_file(tmp_path)
    for nonce in (b"", bytes(32)):
        stage = pilot_stage(tmp_path / f"early {len(nonce)}", EPISODES)
        early = stage.run(ScriptedAdapter(), around=with_nonce(nonce))
        assert both(early.bundle, trust).lines == OPEN
        shutil.copytree(issued.bundle / "proofs", early.bundle / "proofs")
        answer = both(early.bundle, trust)
        assert answer.word == "not valid"
        assert answer.lines["commitment-logged"] is False
        assert both(early.bundle).lines == OPEN | {"commitment-logged": False}


def test_salted_entries_are_opened_by_the_coin(tmp_path: Path) -> None:
    hidden = issue_bundle(
        tmp_path, salted=True, changes={"/product_theatre_config/disclosure": "hashes"}
    )
    assert both(hidden.bundle, hidden.trust_file(tmp_path)).lines == SETTLED


def test_a_statement_that_names_no_checkpoint_could_have_been_signed_before(tmp_path: Path) -> None:
    unnamed = issue_bundle(tmp_path, named=False)
    assert both(unnamed.bundle, unnamed.trust_file(tmp_path)).lines == SETTLED | {"order": False}


def test_a_result_that_came_past_its_day_was_void_and_is_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an engine of its issuer's, which does not look at the day."""
    monkeypatch.setattr(Theatre, "is_open_too_long", lambda *_: False)
    late = issue_bundle(tmp_path, changes=IN_A_DAY, waits=timedelta(days=1, seconds=-5))
    answer = both(late.bundle, late.trust_file(tmp_path))
    assert answer.lines == SETTLED | {"order": False}
    assert "by 2026-11-22T12:00:01.000000Z, got 2026-11-22T12:00:" in answer.told["order"]


def test_an_entry_in_another_log_than_the_issuers_is_none(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    """Though the reader's policy knows that log, too: commitments could be spread over both."""
    log = signer("log.example").key
    text = f"log {issued.trust.log}\nlog {log}\nquorum none\n"
    trust = issued.trust_file(
        tmp_path, log=log, policy=Policy.parse(text.encode()), policy_text=text
    )
    assert both(issued.bundle, trust).lines["commitment-logged"] is False


def linked(bundle: Path, other: Path) -> None:
    proof = bundle / "proofs" / CERTIFICATE
    proof.unlink()
    proof.symlink_to(other / "proofs" / CERTIFICATE)


def linked_folder(bundle: Path, other: Path) -> None:
    shutil.rmtree(bundle / "proofs")
    (bundle / "proofs").symlink_to(other / "proofs")


def huge(bundle: Path, _: Path) -> None:
    with (bundle / "proofs" / COMMITMENT).open("r+b") as handle:
        handle.truncate(1 << 40)


def named_otherwise(bundle: Path, other: Path) -> None:
    shutil.copyfile(other / "proofs" / TRUST, bundle / "proofs" / "Trust.json")


def a_pipe(bundle: Path, _: Path) -> None:
    (bundle / "proofs" / STATEMENT).unlink()
    os.mkfifo(bundle / "proofs" / STATEMENT)


def garbage(bundle: Path, _: Path) -> None:
    for name in (COMMITMENT, STATEMENT, CERTIFICATE, TRUST):
        (bundle / "proofs" / name).write_bytes(b"\xff\x00{")


def of_another_theatre(bundle: Path, other: Path) -> None:
    shutil.rmtree(bundle / "proofs")
    shutil.copytree(other / "proofs", bundle / "proofs")


def exchanged(bundle: Path, _: Path) -> None:
    proofs = bundle / "proofs"
    (proofs / CERTIFICATE).write_bytes((proofs / COMMITMENT).read_bytes())


def with_other_evidence(bundle: Path, other: Path) -> None:
    for name in ("certificate.json", "proofs"):
        path = bundle / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copyfile(other / "certificate.json", bundle / "certificate.json")
    shutil.copytree(other / "proofs", bundle / "proofs")


NOT_LOOKED_AT = OPEN
HOSTILE: dict[Callable[[Path, Path], None], dict[str, bool | None]] = {
    linked: NOT_LOOKED_AT,
    linked_folder: NOT_LOOKED_AT,
    huge: OPEN | {"signature": True, "signer-trusted": True, "commitment-logged": False},
    named_otherwise: NOT_LOOKED_AT,
    a_pipe: NOT_LOOKED_AT,
    garbage: OPEN | {"signature": False, "commitment-logged": False},
    of_another_theatre: OPEN | {"signature": False, "commitment-logged": False},
    exchanged: SETTLED | {"certificate-logged": False, "order": None},
    with_other_evidence: NOT_LOOKED_AT,
}
"""What is done to `proofs/` → how its lines end; all of it is refused."""


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_hostile_proofs_are_refused_and_hang_nothing(
    issued: IssuedBundle, other: IssuedBundle, tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    trust = issued.trust_file(tmp_path)
    change(issued.bundle, other.bundle)
    answer = both(issued.bundle, trust)
    assert (answer.word, answer.lines) == ("not valid", HOSTILE[change])


def test_a_revoked_key_vouches_only_for_what_was_logged_before(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    kid = issued.trust.keys[0].key.kid
    early = issued.trust_file(tmp_path, keys=issued.trust.revoked(kid, index=2).keys)
    answer = both(issued.bundle, early)
    assert (answer.word, answer.lines["signer-trusted"]) == ("not valid", False)
    late = issued.trust_file(tmp_path, keys=issued.trust.revoked(kid, index=3).keys)
    answer = both(issued.bundle, late)
    assert (answer.word, answer.lines["signer-trusted"]) == ("valid, logged", True)
    (issued.bundle / "proofs" / CERTIFICATE).unlink()
    assert both(issued.bundle, late).word == "not valid"


def test_a_key_counts_for_its_time_only(issued: IssuedBundle, tmp_path: Path) -> None:
    (key,) = issued.trust.keys
    for late in (
        key._replace(valid_from=BEGIN + timedelta(hours=1)),
        key._replace(valid_until=BEGIN),
    ):
        trust = issued.trust_file(tmp_path, keys=(late,))
        assert both(issued.bundle, trust).lines["signer-trusted"] is False


def test_without_a_program_for_signatures_the_file_says_so(
    issued: IssuedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = issued.trust_file(tmp_path)

    def missing(*_: bytes) -> bool:
        raise ImportError

    monkeypatch.setattr(plain_notes, "verify_with_package", missing)
    answer = checked_alone(issued.bundle, trust)
    assert (answer.word, answer.lines) == ("valid, logged", SETTLED)
    assert answer.told["signature"].endswith(", by openssl")
    # One that accepts everything is none.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "openssl").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    answer = checked_alone(issued.bundle, trust)
    assert (answer.word, answer.lines) == ("consistent", OPEN)
    why = "signatures are not checked: neither the package cryptography nor openssl 3 is here"
    assert {answer.told[name] for name in ("signature", "commitment-logged")} == {why}


# The log is asked.


def commitment(issued: IssuedBundle, number: int, **changes: Any) -> bytes:  # noqa: ANN401 - members of the entry
    """Return the entry of another run of the same construct and version."""
    about = issued.certificate | {"theatre_id": f"another-{number}", **changes}
    return commitment_entry(about, close_by=issued.close_by)


def void(theatre_id: str, index: int) -> bytes:
    return encode_entry(
        EntryType.VOID, {"theatre_id": theatre_id, "commitment_index": index, "reason": "cancelled"}
    )


async def asked(issued: IssuedBundle, folder: Path, *, log: Path | None = None) -> Answer:
    """Check with the log served over HTTP, as its trust.json names it."""
    async with serving(files_below(log or issued.home.folder / "log")) as url:
        trust = issued.trust_file(folder, url=url)
        return await asyncio.to_thread(checked, issued.bundle, trust, online=True)


def test_the_log_tells_which_run_it_was_and_what_became_of_the_others(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    issued.append(commitment(issued, 1), commitment(issued, 2), void("another-1", 3))
    issued.append(commitment(issued, 3, construct_version="f" * 64))
    answer = asyncio.run(asked(issued, tmp_path))
    assert answer.word == "valid, logged"
    assert answer.lines == SETTLED | {"closure": True}
    assert answer.told["closure"] == (
        "of 7 entries: run 1 of 3, the other 2: 1 cancelled, 1 open; "
        "4 runs of 2 versions; faults: entry-invalid at 0"
    )


def test_a_run_that_is_overdue_is_told(issued: IssuedBundle, tmp_path: Path) -> None:
    late = replace(issued, close_by=BEGIN)
    issued.append(commitment(late, 1))
    answer = asyncio.run(asked(issued, tmp_path))
    assert "the other: 1 overdue; overdue: another-1 at 3; faults" in answer.told["closure"]


def test_an_audit_that_its_issuer_dodges_is_told(issued: IssuedBundle, tmp_path: Path) -> None:
    entry = {
        "statement_sha256": statement_sha256(issued),
        "envelope_sha256": "d" * 64,
        "open_by": "2026-11-21T00:00:00Z",
    }
    issued.append(encode_entry(EntryType.DISPUTE, {**entry}))
    answer = asyncio.run(asked(issued, tmp_path))
    assert "run 1 of 1; 1 audit not answered in time; faults" in answer.told["closure"]


def statement_sha256(issued: IssuedBundle) -> str:
    data = (issued.bundle / "proofs" / STATEMENT).read_bytes()
    return SignedStatement.verify(data, issued.trust.issuer_keys()).sha256


def revocation(issued: IssuedBundle) -> bytes:
    members = {"reason": "wrong", "at": "2026-11-22T00:00:00Z"}
    about = {"statement_sha256": statement_sha256(issued)}
    return encode_entry(EntryType.REVOCATION, {**about, **members})


def revoked_key(trust: Trust) -> bytes:
    (key,) = trust.keys
    document = key.as_document() | {"role": "issuer", "revoked_at": format_rfc3339(BEGIN)}
    del document["revoked_index"]
    return encode_entry(EntryType.KEY, document)


def second(issued: IssuedBundle) -> bytes:
    changed = {"theatre_id": issued.certificate["theatre_id"], "coin_sha256": "e" * 64}
    return commitment(issued, 0, **changed)


def closing(issued: IssuedBundle) -> bytes:
    return void(str(issued.certificate["theatre_id"]), 1)


LATER: dict[Callable[[IssuedBundle], bytes], str] = {
    revocation: "expected a certificate that is not revoked, got its revocation at 3",
    second: "expected one commitment and one closing, got committed-twice at 3",
    closing: "expected one commitment and one closing, got closed-twice at 3",
}
"""What comes into the log later → why the certificate counts no more."""


@pytest.mark.parametrize("entry", LATER, ids=lambda entry: entry.__name__)
def test_what_the_log_has_since_then_counts(
    issued: IssuedBundle, tmp_path: Path, entry: Callable[[IssuedBundle], bytes]
) -> None:
    issued.append(entry(issued))
    answer = asyncio.run(asked(issued, tmp_path))
    assert answer.word == "not valid"
    assert (answer.lines, answer.told["closure"]) == (SETTLED | {"closure": False}, LATER[entry])


def test_a_commitment_that_was_void_before_has_no_certificate(tmp_path: Path) -> None:
    theatre_id = str(uuid5(UUID(int=0), "a stage of its own"))
    issued = issue_bundle(tmp_path, between=lambda index: [void(theatre_id, index)])
    assert issued.certificate["theatre_id"] == theatre_id
    answer = asyncio.run(asked(issued, tmp_path))
    assert answer.lines == SETTLED | {"closure": False}
    assert answer.told["closure"] == (
        "expected one commitment and one closing, got closed-twice at 3"
    )


def test_a_key_that_the_log_revokes_counts_for_what_was_there_before(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    """The reader's trust.json may be older than the revocation."""
    issued.append(revoked_key(issued.trust))
    assert asyncio.run(asked(issued, tmp_path)).lines["closure"] is True
    thief = issue_bundle(tmp_path / "thief", before=lambda trust: [revoked_key(trust)])
    answer = asyncio.run(asked(thief, tmp_path))
    assert answer.lines == SETTLED | {"closure": False}
    assert answer.told["closure"] == "expected a key that is not revoked, got its revocation at 0"


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_that_was_rewritten_shows_two_trees(
    issued: IssuedBundle, tmp_path: Path, kept: int
) -> None:
    """Its operator has the key: he drops the run, or hides what came after the commitment."""
    rewritten = replace(issued, home=replace(issued.home, folder=tmp_path / "rewritten"))
    shutil.copytree(issued.home.folder, rewritten.home.folder)
    shutil.rmtree(rewritten.home.folder / "log")
    entries = [b"another", commitment(issued, 1)][:kept]
    rewritten.append(*entries, *(commitment(issued, number) for number in range(2, 6)))
    answer = asyncio.run(asked(issued, tmp_path, log=rewritten.home.folder / "log"))
    assert (answer.word, answer.lines["closure"]) == ("not valid", False)
    assert "it shows two trees" in answer.told["closure"]


def test_a_log_that_cannot_be_asked_settles_nothing(issued: IssuedBundle, tmp_path: Path) -> None:
    for url in (None, "file:///etc", "/etc", "http://[", "http://", "http://127.0.0.1:1/log"):
        trust = issued.trust_file(tmp_path, url=url)
        answer = checked(issued.bundle, trust, online=True)
        assert (answer.unavailable, answer.lines["closure"]) == (True, False)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert asyncio.run(asked(issued, tmp_path, log=empty)).unavailable
    assert checked(issued.bundle, online=True).lines == OPEN


def test_an_older_log_than_the_proof_is_another(issued: IssuedBundle, tmp_path: Path) -> None:
    shorter = replace(issued, home=replace(issued.home, folder=tmp_path / "shorter"))
    shutil.copytree(issued.home.folder, shorter.home.folder)
    shutil.rmtree(shorter.home.folder / "log")
    shorter.append(b"another")
    answer = asyncio.run(asked(issued, tmp_path, log=shorter.home.folder / "log"))
    assert (answer.word, answer.lines["closure"]) == ("not valid", False)


def test_no_trust_file_is_read_that_names_a_key_twice_or_another_log(issued: IssuedBundle) -> None:
    document: Any = issued.trust.as_document()
    for change in (
        {"keys": document["keys"] * 2},
        {"keys": "none"},
        {"log": document["log"] | {"origin": "another"}},
        {"log": document["log"] | {"url": 7}},
        {"issuer": None},
    ):
        data = canonical_line(document | change)
        with pytest.raises(DefectError):
            plain_notes.reader_of(data)
        with pytest.raises(MalformedError):
            Trust.parse(data)
