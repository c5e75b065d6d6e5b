"""Each line about a bundle's proofs passes for the right ones and fails for others."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.theatre.transparency.log_stage import signer
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.files.log_folder import LogFolder
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import (
    Certified,
    ProofCheck,
    Proofs,
    certificate_entry,
    check_proofs,
    commitment_entry,
    commitment_log,
    run_nonce,
)
from theatre.transparency.log import LogWriter, prove_inclusion
from theatre.transparency.notes import KeyKind, Note, SignedCheckpoint, cosign_text
from theatre.transparency.policy import Policy
from theatre.transparency.statements import certificate_statement, sign_statement
from theatre.transparency.trust import Trust

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
CLOSE_BY = NOW + timedelta(days=30)
COIN = bytes(range(32))
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
CERTIFICATE: JsonObject = {
    "theatre_id": "7e5d2a3c-0000-4000-8000-000000000001",
    "construct_id": "observer",
    "construct_version": "1" * 64,
    "template_id": "product_observer_v1",
    "commitment_hash": "2" * 64,
    "coin_sha256": "3" * 64,
    "evidence_bundle_hash": "4" * 64,
    "verification_tier": "BACKTESTED",
    "issued_at": format_rfc3339(NOW),
    "theatre_resolved_at": format_rfc3339(NOW),
    "expires_at": None,
}


@dataclass(frozen=True)
class Issued:
    """A certificate with its proofs, and whom a reader has to trust for them."""

    proofs: Proofs
    trust: Trust
    home: TrustHome
    nonce: bytes

    def lines(
        self,
        *,
        certificate: JsonObject = CERTIFICATE,
        trust: Trust | None = None,
        close_by: datetime = CLOSE_BY,
    ) -> dict[ProofCheck, bool | None]:
        """Return how each check ends."""
        certified = Certified(
            certificate=certificate, close_by=close_by, run_nonce=self.nonce, coin=COIN
        )
        found = check_proofs(self.proofs, certified, trust=trust or self.trust)
        passed = {line.check for line in found.lines if line.ok}
        assert (found.logged is not None) == (passed >= LOGGED)
        return {line.check: line.ok for line in found.lines}


async def issue(
    folder: Path,
    *,
    certificate: JsonObject = CERTIFICATE,
    close_by: datetime = CLOSE_BY,
    witnessed: bool = False,
    at: datetime = NOW,
    salt: bytes | None = None,
) -> Issued:
    """Commit, sign and certify as an issuer does."""
    home = TrustHome(folder)
    trust = home.open(issuer="me", at=at)
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    entry = commitment_entry(certificate, close_by=close_by, salt=salt)
    committed = await writer.append([b"another", entry])
    first = await cosigned(writer, committed.checkpoint, witnessed=witnessed)
    proof = await prove_inclusion(home.log, committed.indices[1], first)
    known = SignedCheckpoint.verify(first, [trust.log])
    payload = certificate_statement(certificate, commitment_log(proof, known))
    closed = await writer.append([certificate_entry(certificate, payload, proof.index)])
    last = await cosigned(writer, closed.checkpoint, witnessed=witnessed)
    proofs = Proofs(
        commitment=bytes(proof),
        statement=sign_statement(payload, home.signer(trust)),
        certificate=bytes(await prove_inclusion(home.log, closed.indices[0], last)),
    )
    return Issued(proofs, trust, home, run_nonce(first))


async def cosigned(writer: LogWriter, checkpoint: bytes, *, witnessed: bool) -> bytes:
    """Return the checkpoint with the witness's line, where there is a witness."""
    if not witnessed:
        return checkpoint
    text, at = Note.parse(checkpoint).text, int(NOW.timestamp()) + 60
    return await writer.add_cosignatures([cosign_text(text, WITNESS.key, WITNESS.sign, at=at)])


def asking_for_a_witness(trust: Trust) -> Trust:
    """Return a trust whose policy asks for the witness."""
    text = f"log {trust.log}\nwitness w {WITNESS.key}\nquorum w\n"
    return trust._replace(policy=Policy.parse(text.encode()), policy_text=text)


ALL: dict[ProofCheck, bool | None] = {**dict.fromkeys(ProofCheck, True), ProofCheck.CLOSURE: None}
LOGGED = set(ProofCheck) - {ProofCheck.WITNESSES, ProofCheck.CLOSURE}


async def test_all_is_settled_for_who_trusts_issuer_log_and_witness(tmp_path: Path) -> None:
    issued = await issue(tmp_path, witnessed=True)
    assert issued.lines(trust=asking_for_a_witness(issued.trust)) == ALL


async def test_without_a_witness_that_line_stays_open(tmp_path: Path) -> None:
    issued = await issue(tmp_path)
    assert issued.lines() == {**ALL, ProofCheck.WITNESSES: None}
    asked = issued.lines(trust=asking_for_a_witness(issued.trust))
    assert asked == {**ALL, ProofCheck.WITNESSES: False}


async def test_who_trusts_no_one_is_told_that_nothing_is_settled(tmp_path: Path) -> None:
    issued = await issue(tmp_path)
    certified = Certified(
        certificate=CERTIFICATE, close_by=CLOSE_BY, run_nonce=issued.nonce, coin=COIN
    )
    found = check_proofs(issued.proofs, certified, trust=None)
    assert {line.ok for line in found.lines} == {None}
    assert "--trust" in found.lines[0].text
    nothing = check_proofs(Proofs(), certified, trust=issued.trust)
    assert {line.ok for line in nothing.lines} == {None}


async def test_draws_that_do_not_hold_the_nonce_of_the_log_are_refused_by_anyone(
    tmp_path: Path,
) -> None:
    """The run began before: whether its log is to be trusted need not be known."""
    issued = await issue(tmp_path)
    for nonce in (b"", bytes(32)):
        began = replace(issued, nonce=nonce).lines()
        assert began[ProofCheck.COMMITMENT_LOGGED] is False
        assert began[ProofCheck.ORDER] is None
        certified = Certified(
            certificate=CERTIFICATE, close_by=CLOSE_BY, run_nonce=nonce, coin=COIN
        )
        untrusting = check_proofs(issued.proofs, certified, trust=None).lines
        assert [line.check for line in untrusting if line.ok is False] == ["commitment-logged"]


async def test_the_coin_opens_a_salted_entry(tmp_path: Path) -> None:
    issued = await issue(tmp_path / "mine", salt=COIN)
    assert issued.lines() == {**ALL, ProofCheck.WITNESSES: None}
    other = await issue(tmp_path / "other", salt=bytes(32))
    assert other.lines()[ProofCheck.COMMITMENT_LOGGED] is False


async def test_another_issuers_keys_vouch_for_nothing(tmp_path: Path) -> None:
    issued, other = await issue(tmp_path / "one"), await issue(tmp_path / "two")
    lines = issued.lines(trust=other.trust)
    assert lines[ProofCheck.SIGNATURE] is False
    assert lines[ProofCheck.COMMITMENT_LOGGED] is False
    assert set(lines.values()) == {False, None}  # no line passes


async def test_a_certificate_that_was_changed_is_not_the_signed_one(tmp_path: Path) -> None:
    issued = await issue(tmp_path)
    better: JsonObject = {**CERTIFICATE, "verification_tier": "PROVEN"}
    lines = issued.lines(certificate=better)
    assert lines[ProofCheck.SIGNATURE] is False
    assert lines[ProofCheck.CERTIFICATE_LOGGED] is None


@pytest.mark.parametrize(
    "name", ["theatre_id", "construct_id", "construct_version", "commitment_hash", "coin_sha256"]
)
async def test_another_commitment_is_not_the_logged_one(tmp_path: Path, name: str) -> None:
    issued = await issue(tmp_path)
    lines = issued.lines(certificate={**CERTIFICATE, name: "5" * 64})
    assert lines[ProofCheck.COMMITMENT_LOGGED] is False


async def test_a_later_day_of_closing_is_not_the_logged_one(tmp_path: Path) -> None:
    issued = await issue(tmp_path)
    later = CLOSE_BY + timedelta(days=60)
    assert issued.lines(close_by=later)[ProofCheck.COMMITMENT_LOGGED] is False


async def test_a_commitment_that_comes_after_its_certificate_is_out_of_order(
    tmp_path: Path,
) -> None:
    """Backdating: signed and certified first, and the commitment logged when it looks good."""
    home = TrustHome(tmp_path)
    trust = home.open(issuer="me", at=NOW)
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    entry = commitment_entry(CERTIFICATE, close_by=CLOSE_BY)
    claimed: JsonObject = {"origin": trust.log.name, "index": 1, "checkpoint": "to come"}
    payload = certificate_statement(CERTIFICATE, claimed)
    appended = await writer.append([certificate_entry(CERTIFICATE, payload, 1), entry])
    certificate, commitment = [
        bytes(await prove_inclusion(home.log, index, appended.checkpoint))
        for index in appended.indices
    ]
    statement = sign_statement(payload, home.signer(trust))
    issued = Issued(
        Proofs(commitment=commitment, statement=statement, certificate=certificate),
        trust,
        home,
        run_nonce(appended.checkpoint),
    )
    assert issued.lines()[ProofCheck.ORDER] is False


async def test_a_statement_must_name_the_checkpoint_before_it(tmp_path: Path) -> None:
    """One that names none could have been signed before the commitment was public."""
    issued = await issue(tmp_path)
    payload = certificate_statement(CERTIFICATE, None)
    writer = LogWriter(issued.home.log, issued.trust.log, issued.home.log_signer(issued.trust))
    await writer.open()
    closed = await writer.append([certificate_entry(CERTIFICATE, payload, 1)])
    proof = await prove_inclusion(issued.home.log, closed.indices[0], closed.checkpoint)
    unnamed = issued.proofs._replace(
        statement=sign_statement(payload, issued.home.signer(issued.trust)),
        certificate=bytes(proof),
    )
    lines = replace(issued, proofs=unnamed).lines()
    assert (lines[ProofCheck.CERTIFICATE_LOGGED], lines[ProofCheck.ORDER]) == (True, False)


async def test_a_key_that_was_revoked_before_does_not_count(tmp_path: Path) -> None:
    issued = await issue(tmp_path)
    kid = issued.trust.keys[0].key.kid
    before, after = issued.trust.revoked(kid, index=2), issued.trust.revoked(kid, index=3)
    assert issued.lines(trust=before)[ProofCheck.SIGNER_TRUSTED] is False
    assert issued.lines(trust=after)[ProofCheck.SIGNER_TRUSTED] is True


async def test_the_witness_dates_a_certificate_not_its_issuer(tmp_path: Path) -> None:
    """A key that was made after the stated time, and before the witness saw the entry, counts."""
    issued = await issue(tmp_path, witnessed=True, at=NOW + timedelta(seconds=30))
    assert issued.lines(trust=asking_for_a_witness(issued.trust)) == ALL
    unseen = await issue(tmp_path / "unseen", at=NOW + timedelta(seconds=30))
    assert unseen.lines()[ProofCheck.SIGNER_TRUSTED] is False


async def test_the_nonce_is_of_the_text_and_not_of_who_signed_it(tmp_path: Path) -> None:
    store = LogFolder(tmp_path)
    log = signer("log.example")
    writer = LogWriter(store, log.key, log.sign)
    await writer.open()
    bare = (await writer.append([b"entry"])).checkpoint
    text = Note.parse(bare).text
    more = await writer.add_cosignatures([cosign_text(text, WITNESS.key, WITNESS.sign, at=1)])
    assert run_nonce(bare) == run_nonce(more)
    assert len(run_nonce(bare)) == 32
    assert run_nonce((await writer.append([b"other"])).checkpoint) != run_nonce(bare)
