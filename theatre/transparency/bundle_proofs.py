"""What lies next to a bundle: the signature of its certificate, and that a log has both entries.

The files of `proofs/` stand outside `SHA256SUMS`, since they come after it. A check gives a line:
None where nothing at hand settles it, which is never a pass. Source: docs/contract/trust.md §3, §4.
"""

import contextlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, sha256_hex
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import ProofError, SignatureError, TransparencyError
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust

COMMITMENT_PROOF: Final = "commitment.tlog-proof"
STATEMENT: Final = "certificate.sigstore.json"
CERTIFICATE_PROOF: Final = "certificate.tlog-proof"
TRUST: Final = "trust.json"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ProofCheck(StrEnum):
    """The lines, in their order; the values are stable."""

    SIGNATURE = "signature"
    SIGNER_TRUSTED = "signer-trusted"
    COMMITMENT_LOGGED = "commitment-logged"
    CERTIFICATE_LOGGED = "certificate-logged"
    ORDER = "order"
    WITNESSES = "witnesses"
    CLOSURE = "closure"


class ProofLine(NamedTuple):
    """How a check ended: passed, failed, or (None) unsettled; and in words why."""

    check: ProofCheck
    ok: bool | None
    text: str


class Proofs(NamedTuple):
    """The files of `proofs/`, as far as they are there."""

    commitment: bytes | None = None
    statement: bytes | None = None
    certificate: bytes | None = None


class Certified(NamedTuple):
    """What a bundle says of its own run: the proofs are held to it.

    `certificate` is the one that the independent check has held to the evidence, `run_nonce` the
    value that its draws hold (empty where they hold none), `coin` what opens a salted entry (None
    where it is withheld: then the entry has no salt).
    """

    certificate: JsonObject
    close_by: datetime
    run_nonce: bytes
    coin: bytes | None


class LoggedEntry(NamedTuple):
    """An entry's place, and the checkpoint of a trusted log that has it."""

    place: int
    signed: SignedCheckpoint


class LoggedCertificate(NamedTuple):
    """A certificate that a trusted key signed, and its two entries in a trusted log."""

    statement: SignedStatement
    committed: LoggedEntry
    closed: LoggedEntry


class ProofReport(NamedTuple):
    """A line for each check, in their order; `logged` is there where all lines but witnesses pass.

    Only then can the log be asked what became of the commitment.
    """

    lines: tuple[ProofLine, ...]
    logged: LoggedCertificate | None = None

    def passed(self, *checks: ProofCheck) -> bool:
        """Tell whether these lines passed."""
        return all(line.ok is True for line in self.lines if line.check in checks)


def commitment_entry(
    certificate: JsonObject, *, close_by: datetime, salt: bytes | None = None
) -> bytes:
    """Return the log's entry of a commitment, from what receipt and certificate both have.

    `certificate` may be any document with these members; `close_by` follows from the template.
    With the coin as `salt` the entry tells no one what was committed before the coin is public.
    """
    names = ("theatre_id", "construct_id", "construct_version", "template_id")
    members: JsonObject = {name: certificate[name] for name in names}
    members |= {name: certificate[name] for name in ("commitment_hash", "coin_sha256")}
    if salt is not None:
        plain = cast("str", certificate["commitment_hash"])
        members |= {
            "commitment_hash": hmac.digest(salt, plain.encode("ascii"), "sha256").hex(),
            "salted": True,
        }
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


def check_proofs(proofs: Proofs, certified: Certified, *, trust: Trust | None) -> ProofReport:
    """Return a line for each check; without a reader's `trust` none can pass.

    What became of the commitment since then only the log can say: that line is left open.
    """
    check = _Check(proofs, certified, trust)
    lines = tuple(check.lines())
    needed = set(ProofCheck) - {ProofCheck.WITNESSES, ProofCheck.CLOSURE}
    logged = None
    if check.signed is not None and check.committed is not None and check.closed is not None:
        logged = LoggedCertificate(check.signed, check.committed, check.closed)
    report = ProofReport(lines, logged)
    return report if report.passed(*needed) else ProofReport(lines)


@dataclass(slots=True)
class _Check:
    """One pass over the proofs: each step leaves what the next one needs."""

    proofs: Proofs
    certified: Certified
    trust: Trust | None
    signed: SignedStatement | None = None
    committed: LoggedEntry | None = None
    closed: LoggedEntry | None = None

    def lines(self) -> Iterator[ProofLine]:
        steps = (
            (ProofCheck.SIGNATURE, self._read_statement),
            (ProofCheck.COMMITMENT_LOGGED, self._read_commitment),
            (ProofCheck.CERTIFICATE_LOGGED, self._read_certificate),
            (ProofCheck.SIGNER_TRUSTED, self._check_signer),
            (ProofCheck.ORDER, self._check_order),
            (ProofCheck.WITNESSES, self._check_witnesses),
            (ProofCheck.CLOSURE, lambda: ("asks the log, give --online", None)),
        )
        found: dict[ProofCheck, ProofLine] = {}
        for check, step in steps:
            try:
                text, ok = step()
            except TransparencyError as error:
                text, ok = str(error), False
            found[check] = ProofLine(check, ok, text)
        # The signer's time is that of the certificate's entry: it is read before, and shown first.
        yield from (found[check] for check in ProofCheck)

    def _read_statement(self) -> tuple[str, bool | None]:
        if self.proofs.statement is None:
            return f"no {STATEMENT}: nothing says who issued it", None
        if self.trust is None:
            return "signed; give --trust with the issuer's trust.json to verify it", None
        signed = SignedStatement.verify(self.proofs.statement, self.trust.issuer_keys())
        # As bytes: to Python 1 and true are equal.
        if canonical_line(signed.certificate()) != canonical_line(self.certified.certificate):
            raise SignatureError("expected a signature of the bundle's certificate, got another's")
        self.signed = signed
        return f"signed by {signed.kid}", True

    def _read_commitment(self) -> tuple[str, bool | None]:
        data, certified = self.proofs.commitment, self.certified
        if data is None:
            return f"no {COMMITMENT_PROOF}: no log shows it", None
        proof = LogProof.parse(data)
        # A run whose draws do not hold what the log gave them may have begun before: no one has to
        # be trusted to see that.
        if run_nonce(proof.checkpoint) != certified.run_nonce:
            raise ProofError(
                "expected draws that hold the nonce of the commitment's checkpoint, "
                f"{run_nonce(proof.checkpoint).hex()}, got {certified.run_nonce.hex() or 'none'}"
            )
        about, day = certified.certificate, certified.close_by
        salts = {None, certified.coin}
        entries = [commitment_entry(about, close_by=day, salt=salt) for salt in salts]
        self.committed = self._look_up(proof, entries)
        return self._told(self.committed)

    def _read_certificate(self) -> tuple[str, bool | None]:
        if self.proofs.certificate is None:
            return f"no {CERTIFICATE_PROOF}: no log shows it", None
        if self.signed is None or self.committed is None:
            return "rests on the signature and on the commitment's proof", None
        about, index = self.certified.certificate, self.committed.place
        entry = certificate_entry(about, self.signed.payload, index)
        self.closed = self._look_up(LogProof.parse(self.proofs.certificate), [entry])
        return self._told(self.closed)

    def _look_up(self, proof: LogProof, entries: Sequence[bytes]) -> LoggedEntry | None:
        """Return where a trusted log has one of `entries`; None where no one is trusted."""
        if self.trust is None:
            return None
        # The quorum has a line of its own. Of the logs that the policy names it must be this one.
        logs = {key: url for key, url in self.trust.policy.logs.items() if key == self.trust.log}
        known = Policy(logs, self.trust.policy.witnesses)
        *others, last = entries
        for entry in others:
            with contextlib.suppress(ProofError):
                return LoggedEntry(proof.index, proof.verify(entry, known))
        return LoggedEntry(proof.index, proof.verify(last, known))

    @staticmethod
    def _told(entry: LoggedEntry | None) -> tuple[str, bool | None]:
        if entry is None:
            return "give --trust with the issuer's trust.json to look it up", None
        return f"entry {entry.place} of {entry.signed.checkpoint.origin}", True

    def _check_signer(self) -> tuple[str, bool | None]:
        if self.signed is None or self.trust is None:
            return "rests on the signature", None
        at, source = self._issued()
        index = None if self.closed is None else self.closed.place
        self.trust.check_signer(self.signed, at=at, index=index)
        return f"a key of {self.trust.issuer}, at {format_rfc3339(at)} ({source})", True

    def _issued(self) -> tuple[datetime, str]:
        """Return when it was issued, and whose word that is."""
        if self.closed is not None and self.closed.signed.cosigned:
            at = min(self.closed.signed.cosigned.values())
            # A witness saw it then: it is not later. That is the time that keys are asked for.
            try:
                return _EPOCH + timedelta(seconds=at), "witnessed"
            except OverflowError as error:
                raise SignatureError(f"expected a witness's time, got {at} seconds") from error
        stated = cast("str", self.certified.certificate["issued_at"])
        return parse_rfc3339(stated), "the issuer's own word"

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
        ended = cast("str", self.certified.certificate["theatre_resolved_at"])
        # Who could wait with a result until its day is over would choose which ones to show.
        if parse_rfc3339(ended) > self.certified.close_by:
            day = format_rfc3339(self.certified.close_by)
            raise SignatureError(f"expected a theatre that ended by {day}, got {ended}: it is void")
        return f"committed at {first}, certified at {last}", True

    def _stated_log(self) -> JsonValue:
        signed = cast("SignedStatement", self.signed)
        return cast("JsonObject", signed.document["predicate"])["commitment_log"]

    def _check_witnesses(self) -> tuple[str, bool | None]:
        if self.committed is None or self.closed is None or self.trust is None:
            return "rests on both entries", None
        both = [entry.signed.cosigned for entry in (self.committed, self.closed)]
        for cosigned in both:
            self.trust.policy.check_quorum(cosigned)
        if not all(both):
            return "no witness is asked for: the log's word alone", None
        names = ", ".join(sorted({key.name for cosigned in both for key in cosigned}))
        return f"cosigned by {names}", True


def commitment_log(proof: LogProof, signed: SignedCheckpoint) -> JsonObject:
    """Return what a statement says of its commitment's place in the log."""
    return {
        "origin": signed.checkpoint.origin,
        "index": proof.index,
        "checkpoint": str(signed.checkpoint),
    }
