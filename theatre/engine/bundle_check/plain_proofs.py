"""The proofs next to a bundle, for `verify_bundle.py`: who signed, and what a log has.

Written from docs/contract/trust.md, DSSE, in-toto Statement, Sigstore bundle and C2SP
tlog-cosignature. It shares no line with what signs and logs.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import Document, parsed_time, written_time
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed
from theatre.engine.bundle_check.plain_notes import (
    ED25519_HEAD,
    NoteKey,
    Reader,
    Signed,
    Verify,
    checkpoint_of,
    decoded,
    find_verifier,
    note_of,
    proof_of,
    root_above,
)
from theatre.engine.bundle_check.plain_records import sha256

MAX_STATEMENT_BYTES: Final = 1024 * 1024
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_ENTRY_BYTES: Final = 1024


class LogEntry(NamedTuple):
    """An entry of a trusted log: its place, and the checkpoint that has it."""

    place: int
    origin: str
    size: int
    text: str
    cosigned: dict[NoteKey, int]
    """Witness → when it saw the checkpoint, in seconds since 1970."""


class ProofLine(NamedTuple):
    """How a check of the proofs ended: passed, failed, or (None) unsettled; and in words why."""

    id: str
    ok: bool | None
    text: str


PROOF_CHECKS: Final = (
    "signature",
    "signer-trusted",
    "commitment-logged",
    "certificate-logged",
    "order",
    "witnesses",
    "closure",
)
"""The lines, as `echelon check` has them."""
Ended = tuple[str, bool | None]


@dataclass
class ProofCheck:
    """One pass over the proofs of a bundle in which nothing failed: a step leaves what follows.

    `reader` None: no one is trusted. `verify` None: nothing here can check a signature.
    """

    evidence: Evidence
    reader: Reader | None
    verify: Verify | None
    by: str
    kid: str = ""
    statement: Document = field(default_factory=dict)
    payload: bytes = b""
    committed: LogEntry | None = None
    closed: LogEntry | None = None

    def lines(self) -> Iterator[ProofLine]:
        """Yield a line for each check, in their order."""
        steps: dict[str, Callable[[], Ended]] = {
            "signature": self.check_signature,
            "commitment-logged": self.check_commitment,
            "certificate-logged": self.check_certificate,
            "signer-trusted": self.check_signer,  # at the time of the certificate's entry
            "order": self.check_order,
            "witnesses": self.check_witnesses,
            "closure": lambda: ("this file asks no log: echelon check --online does", None),
        }
        found = {}
        for name, step in steps.items():
            ok: bool | None = False
            try:
                text, ok = step()
            except DefectError as error:
                text = str(error)
            except Exception as error:  # noqa: BLE001 - another form can raise anything
                text = f"not of the expected form ({type(error).__name__}: {error!s:.80})"
            found[name] = ProofLine(name, ok, text)
        yield from (found[name] for name in PROOF_CHECKS)

    def file(self, name: str) -> bytes | None:
        """Return a file of `proofs/`."""
        path = f"proofs/{name}"
        return self.evidence.raw(path) if (self.evidence.folder / path).is_file() else None

    def untold(self) -> str | None:
        """Return why no signature can be checked, if so."""
        if self.reader is None:
            return "give --trust with the issuer's trust.json to verify it"
        return f"signatures are not checked: {self.by}" if self.verify is None else None

    def signed(self, key: bytes, signature: bytes, message: bytes) -> bool:
        """Tell whether a key signed a message."""
        return self.verify is not None and self.verify(key, signature, message)

    def check_signature(self) -> Ended:
        """Check that a trusted key signed a statement with this certificate, and nothing else."""
        data = self.file("certificate.sigstore.json")
        if data is None or self.reader is None or self.untold():
            return self.untold() or "no certificate.sigstore.json: nothing says who issued it", None
        if len(data) > MAX_STATEMENT_BYTES:
            raise DefectError(f"expected at most {MAX_STATEMENT_BYTES} bytes")
        envelope = parsed(data, "certificate.sigstore.json")["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        payload, kid = decoded(envelope["payload"]), signature["keyid"]
        one = {"keyid": kid, "sig": signature["sig"]}
        expected = {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": kid}},
            "dsseEnvelope": {
                "payload": envelope["payload"],
                "payloadType": PAYLOAD_TYPE,
                "signatures": [one],
            },
        }
        if canonical(expected) + b"\n" != data:
            raise DefectError("expected a Sigstore bundle of these members in canonical JSON")
        if kid not in self.reader.keys:
            raise DefectError(f"expected a signature by a trusted key, got one by {kid!r:.80}")
        kind = PAYLOAD_TYPE.encode()
        encoded = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        if not self.signed(self.reader.keys[kid].der, decoded(signature["sig"]), encoded):
            raise DefectError(f"expected a signature by {kid}, got another")
        statement = parsed(payload, "the statement")
        certificate = self.evidence.certificate
        log = statement["predicate"]["commitment_log"]
        digest = {"sha256": certificate["evidence_bundle_hash"]}
        said = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "SHA256SUMS", "digest": digest}],
            "predicateType": "urn:echelon:attestation:calibration-certificate:v1",
            "predicate": {"certificate": certificate, "commitment_log": log},
        }
        if canonical(said) != payload or not isinstance(log, dict | None):
            raise DefectError("expected a statement of the bundle's certificate, got another")
        self.kid, self.statement, self.payload = kid, statement, payload
        return f"signed by {kid}, by {self.by}", True

    def check_commitment(self) -> Ended:
        """Check that a log has the commitment, and that the run's draws hold its nonce."""
        data, certificate = self.file("commitment.tlog-proof"), self.evidence.certificate
        if data is None:
            return "no commitment.tlog-proof: no log shows it", None
        # Anyone can see this: a run without the value that the log gave may have begun before.
        nonce = sha256(proof_of(data)[2].rpartition(b"\n\n")[0] + b"\n")
        if nonce != self.evidence.run_nonce.hex():
            raise DefectError(f"expected draws with the nonce {nonce}: the run began before it")
        if self.reader is None or self.untold():
            return str(self.untold()), None
        names = ("theatre_id", "construct_id", "construct_version", "template_id", "coin_sha256")
        plain = certificate["commitment_hash"]
        day = written_time(self.close_by())
        entry: Document = {name: certificate[name] for name in names}
        entry |= {"type": "commitment/v1", "commitment_hash": plain, "close_by": day}
        entries = [entry]
        if "coin.txt" in self.evidence.paths:
            # A template that is not public: the coin opens the entry.
            salt = hmac.digest(self.evidence.coin, plain.encode(), "sha256").hex()
            entries.append(entry | {"commitment_hash": salt, "salted": True})
        self.committed = self.look_up(data, self.reader, entries)
        return f"entry {self.committed.place} of {self.committed.origin}", True

    def close_by(self) -> datetime:
        """Return the day by which the theatre had to end."""
        days = 30
        if self.evidence.template["schema_version"] == "2.2.0":
            days = self.evidence.policy.get("close_within_days", days)
        committed = parsed_time(self.evidence.certificate["theatre_committed_at"])
        return committed + timedelta(days=days)

    def check_certificate(self) -> Ended:
        """Check that the log has the signed certificate."""
        data, certificate = self.file("certificate.tlog-proof"), self.evidence.certificate
        if data is None:
            return "no certificate.tlog-proof: no log shows it", None
        if self.committed is None or self.reader is None or not self.kid:
            return "rests on the signature and on the commitment's proof", None
        entry = {
            "type": "certificate/v1",
            "theatre_id": certificate["theatre_id"],
            "commitment_index": self.committed.place,
            "statement_sha256": sha256(self.payload),
            "tier": certificate["verification_tier"],
            "expires_at": certificate["expires_at"],
        }
        self.closed = self.look_up(data, self.reader, [entry])
        return f"entry {self.closed.place} of {self.closed.origin}", True

    def look_up(self, data: bytes, reader: Reader, entries: list[Document]) -> LogEntry:
        """Return where the reader's log has one of these entries."""
        place, hashes, note = proof_of(data)
        text, lines = note_of(note)
        origin, size, root = checkpoint_of(text)
        known = {(key.name, key.id): key for key in reader.policy.logs if key == reader.log}
        theirs = [one for one in lines if one[:2] in known and one[0] == origin]
        for name, key_id, signature in theirs:
            public = ED25519_HEAD + known[name, key_id].public
            if not self.signed(public, signature, text.encode()):
                raise DefectError(f"expected a signature by {name}, got another")
        if not theirs:
            raise DefectError(f"expected a checkpoint of a trusted log, got one of {origin!r:.80}")
        for entry in entries:
            raw = canonical(entry)
            leaf = hashlib.sha256(b"\x00" + raw).digest()
            if len(raw) <= MAX_ENTRY_BYTES and root_above(leaf, place, size, hashes) == root:
                return LogEntry(place, origin, size, text, self.cosigned(reader, text, lines))
        raise DefectError(f"expected a proof of entry {place} in the tree of {size}, got another")

    def cosigned(self, reader: Reader, text: str, lines: list[Signed]) -> dict[NoteKey, int]:
        """Return which witnesses of the policy saw a checkpoint, and when."""
        known = {(key.name, key.id): key for key in reader.policy.witnesses.values()}
        seen = {}
        for name, key_id, signature in lines:
            key = known.get((name, key_id))
            if key is None:  # a line of a stranger says nothing
                continue
            at = int.from_bytes(signature[:8])
            message = f"cosignature/v1\ntime {at}\n{text}".encode()
            if not self.signed(ED25519_HEAD + key.public, signature[8:], message):
                raise DefectError(f"expected a cosignature by {name}, got another")
            seen[key] = at
        return seen

    def check_signer(self) -> Ended:
        """Check that the key counted when the certificate was issued."""
        if self.reader is None or not self.kid:
            return "rests on the signature", None
        key, stated = self.reader.keys[self.kid], self.evidence.certificate["issued_at"]
        at, whose = parsed_time(stated), "the issuer's own word"
        if self.closed is not None and self.closed.cosigned:
            at, whose = EPOCH + timedelta(seconds=min(self.closed.cosigned.values())), "witnessed"
        if at < key.valid_from or (key.valid_until is not None and at > key.valid_until):
            raise DefectError(f"expected a signature while its key counts, got {written_time(at)}")
        place, revoked = None if self.closed is None else self.closed.place, key.revoked_index
        # What no log has could have been signed by a thief at any time.
        if revoked is not None and (place is None or place >= revoked):
            raise DefectError(f"expected a key that is not revoked, got {self.kid}")
        return f"a key of {self.reader.issuer}, at {written_time(at)} ({whose})", True

    def check_order(self) -> Ended:
        """Check that the commitment was public before the certificate, which names where."""
        first, last = self.committed, self.closed
        if first is None or last is None:
            return "rests on both entries", None
        if not first.place < first.size <= last.place < last.size:
            raise DefectError("expected the commitment's checkpoint before the certificate's entry")
        stated = self.statement["predicate"]["commitment_log"]
        named = {"origin": first.origin, "index": first.place, "checkpoint": first.text}
        if canonical(stated) != canonical(named):
            raise DefectError("expected a statement that names the commitment's checkpoint")
        # Who could wait with a result until its day is over would choose which ones to show.
        if parsed_time(self.evidence.certificate["theatre_resolved_at"]) > self.close_by():
            day = written_time(self.close_by())
            raise DefectError(f"expected a theatre that ended by {day}: it is void")
        return f"committed at {first.place}, certified at {last.place}", True

    def check_witnesses(self) -> Ended:
        """Check that enough witnesses saw both checkpoints."""
        if self.committed is None or self.closed is None or self.reader is None:
            return "rests on both entries", None
        both = [set(self.committed.cosigned), set(self.closed.cosigned)]
        for seen in both:
            self.reader.policy.require_quorum(seen)
        if not all(both):
            return "no witness is asked for: the log's word alone", None
        return "cosigned by " + ", ".join(sorted({key.name for key in both[0] | both[1]})), True


def unseen(why: str) -> list[ProofLine]:
    """Return the lines of proofs that were not looked at."""
    return [ProofLine(name, None, f"not looked at: {why}") for name in PROOF_CHECKS]


def signing_is_trusted(lines: list[ProofLine]) -> bool:
    """Tell whether a trusted key signed, as two lines say."""
    return {line.ok for line in lines[:2]} == {True}


def log_is_trusted(lines: list[ProofLine]) -> bool:
    """Tell whether a trusted log has both entries in their order, too."""
    return {line.ok for line in lines[:5]} == {True}


def proofs_of(evidence: Evidence, reader: Reader | None) -> list[ProofLine]:
    """Return a line for each check of the proofs next to a bundle in which nothing failed."""
    by, verify = ("", None) if reader is None else find_verifier()
    return list(ProofCheck(evidence, reader, verify, by).lines())
