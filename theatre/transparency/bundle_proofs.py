"""What lies next to a bundle: the signature of its certificate, and that a log has both entries.

The files of `proofs/` stand outside `SHA256SUMS`, since they come after it. A check gives a line:
None where nothing at hand settles it, which is never a pass. Source: docs/contract/trust.md §3, §4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, sha256_hex
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import SignatureError, TransparencyError
from theatre.transparency.notes import SignedCheckpoint, VerifierKey
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust

COMMITMENT_PROOF: Final = "commitment.tlog-proof"
STATEMENT: Final = "certificate.sigstore.json"
CERTIFICATE_PROOF: Final = "certificate.tlog-proof"
TRUST: Final = "trust.json"


class ProofCheck(StrEnum):
    """The lines, in their order; the values are stable."""

    SIGNATURE = "signature"
    SIGNER_TRUSTED = "signer-trusted"
    COMMITMENT_LOGGED = "commitment-logged"
    CERTIFICATE_LOGGED = "certificate-logged"
    ORDER = "order"
    WITNESSES = "witnesses"


@dataclass(frozen=True, slots=True)
class ProofLine:
    """How a check ended: passed, failed, or (None) unsettled; and in words why."""

    check: ProofCheck
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """The files of `proofs/`, as far as they are there."""

    commitment: bytes | None = None
    statement: bytes | None = None
    certificate: bytes | None = None


def commitment_entry(certificate: JsonObject, *, close_by: datetime) -> bytes:
    """Return the log's entry of a commitment, from what receipt and certificate both have.

    `certificate` may be any document with these members; `close_by` follows from the template.
    """
    names = ("theatre_id", "construct_id", "construct_version", "template_id")
    members: JsonObject = {name: certificate[name] for name in names}
    members |= {name: certificate[name] for name in ("commitment_hash", "coin_sha256")}
    return encode_entry(EntryType.COMMITMENT, {**members, "close_by": format_rfc3339(close_by)})


def certificate_entry(certificate: JsonObject, statement: bytes, commitment_index: int) -> bytes:
    """Return the log's entry that closes a commitment with a certificate."""
    members: JsonObject = {
        "theatre_id": certificate["theatre_id"],
        "commitment_index": commitment_index,
        "statement_sha256": sha256_hex(statement),
        "tier": certificate["verification_tier"],
        "expires_at": certificate["expires_at"],
    }
    return encode_entry(EntryType.CERTIFICATE, members)


def run_nonce(commitment_checkpoint: bytes) -> bytes:
    """Return the value that no one had before the checkpoint of the commitment was signed.

    It is the SHA-256 of the checkpoint's text: signatures may be added later, the text stays.
    """
    text, _, _ = commitment_checkpoint.rpartition(b"\n\n")
    return bytes.fromhex(sha256_hex(text + b"\n"))


def check_proofs(
    proofs: Proofs, certificate: JsonObject, *, close_by: datetime, trust: Trust | None
) -> list[ProofLine]:
    """Return a line for each check; without a reader's `trust` none can pass but `signature`.

    `certificate` is the bundle's, which the independent check has held to the evidence.
    """
    return list(_Check(proofs, certificate, close_by, trust).lines())


@dataclass(slots=True)
class _Check:
    """One pass over the proofs: each step leaves what the next one needs."""

    proofs: Proofs
    certificate: JsonObject
    close_by: datetime
    trust: Trust | None
    signed: SignedStatement | None = None
    committed: tuple[int, SignedCheckpoint] | None = None
    closed: tuple[int, SignedCheckpoint] | None = None

    def lines(self) -> Iterator[ProofLine]:
        steps = (
            (ProofCheck.SIGNATURE, self._read_statement),
            (ProofCheck.COMMITMENT_LOGGED, self._read_commitment),
            (ProofCheck.CERTIFICATE_LOGGED, self._read_certificate),
            (ProofCheck.SIGNER_TRUSTED, self._check_signer),
            (ProofCheck.ORDER, self._check_order),
            (ProofCheck.WITNESSES, self._check_witnesses),
        )
        found: dict[ProofCheck, ProofLine] = {}
        for check, step in steps:
            try:
                text, ok = step()
            except TransparencyError as error:
                text, ok = str(error), False
            found[check] = ProofLine(check, ok, text)
        # The signer's time is that of the certificate's entry: it is read before, and told first.
        yield from (found[check] for check in ProofCheck)

    def _read_statement(self) -> tuple[str, bool | None]:
        if self.proofs.statement is None:
            return f"no {STATEMENT}: nothing says who issued it", None
        if self.trust is None:
            return "signed; give --trust with the issuer's trust.json to verify it", None
        signed = SignedStatement.verify(self.proofs.statement, self.trust.issuer_keys())
        if signed.certificate() != self.certificate:
            raise SignatureError("expected a signature of the bundle's certificate, got another's")
        self.signed = signed
        return f"signed by {signed.kid}", True

    def _read_commitment(self) -> tuple[str, bool | None]:
        entry = commitment_entry(self.certificate, close_by=self.close_by)
        self.committed, text, ok = self._look_up(self.proofs.commitment, COMMITMENT_PROOF, entry)
        return text, ok

    def _read_certificate(self) -> tuple[str, bool | None]:
        if self.signed is None or self.committed is None:
            return "rests on the signature and on the commitment's proof", None
        entry = certificate_entry(self.certificate, self.signed.payload, self.committed[0])
        self.closed, text, ok = self._look_up(self.proofs.certificate, CERTIFICATE_PROOF, entry)
        return text, ok

    def _look_up(
        self, data: bytes | None, name: str, entry: bytes
    ) -> tuple[tuple[int, SignedCheckpoint] | None, str, bool | None]:
        if data is None:
            return None, f"no {name}: no log shows it", None
        if self.trust is None:
            return None, "give --trust with the issuer's trust.json to look it up", None
        proof = LogProof.parse(data)
        # The quorum has a line of its own.
        known = Policy({self.trust.log: self.trust.url}, self.trust.policy.witnesses)
        signed = proof.verify(entry, known)
        return (proof.index, signed), f"entry {proof.index} of {signed.checkpoint.origin}", True

    def _check_signer(self) -> tuple[str, bool | None]:
        if self.signed is None or self.trust is None:
            return "rests on the signature", None
        at, source = self._issued()
        index = None if self.closed is None else self.closed[0]
        self.trust.check_signer(self.signed, at=at, index=index)
        return f"a key of {self.trust.issuer}, at {format_rfc3339(at)} ({source})", True

    def _issued(self) -> tuple[datetime, str]:
        """Return when it was issued, and whose word that is."""
        if self.closed is not None and self.closed[1].cosigned:
            at = min(self.closed[1].cosigned.values())
            # A witness saw it then: it is not later. That is the time that keys are asked for.
            return datetime.fromtimestamp(at, tz=parse_rfc3339(self._stated).tzinfo), "witnessed"
        return parse_rfc3339(self._stated), "the issuer's own word"

    @property
    def _stated(self) -> str:
        return cast("str", self.certificate["issued_at"])

    def _check_order(self) -> tuple[str, bool | None]:
        if self.committed is None or self.closed is None or self.signed is None:
            return "rests on both entries", None
        (first, before), (last, after) = self.committed, self.closed
        # It follows from what the statement names: no one can name a checkpoint that holds the
        # statement's own hash. It is asked all the same, for its words.
        if not first < before.checkpoint.size <= last < after.checkpoint.size:
            raise SignatureError(
                f"expected the commitment's checkpoint before the certificate's entry, got entry "
                f"{first} in {before.checkpoint.size} and entry {last} in {after.checkpoint.size}"
            )
        stated = self._stated_log()
        wanted = {
            "origin": before.checkpoint.origin,
            "index": first,
            "checkpoint": str(before.checkpoint),
        }
        if stated != wanted:
            raise SignatureError(
                "expected the signed certificate to name the commitment's checkpoint"
            )
        return f"committed at {first}, certified at {last}", True

    def _stated_log(self) -> JsonValue:
        signed = cast("SignedStatement", self.signed)
        return cast("JsonObject", signed.document["predicate"])["commitment_log"]

    def _check_witnesses(self) -> tuple[str, bool | None]:
        if self.committed is None or self.closed is None or self.trust is None:
            return "rests on both entries", None
        both: set[VerifierKey] = set(self.committed[1].cosigned) & set(self.closed[1].cosigned)
        self.trust.policy.check_quorum(both)
        names = ", ".join(sorted(key.name for key in both))
        if not names:
            return "no witness is asked for: the log's word alone", None
        return f"cosigned by {names}", True


def commitment_log(proof: LogProof, signed: SignedCheckpoint) -> JsonObject:
    """Return what a statement says of its commitment's place in the log."""
    return {
        "origin": signed.checkpoint.origin,
        "index": proof.index,
        "checkpoint": str(signed.checkpoint),
    }
