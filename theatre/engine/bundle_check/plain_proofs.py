"""The proofs next to a bundle, for `verify_bundle.py`: who signed, and what a log has.

Written from docs/contract/trust.md and the public formats that it names: DSSE, in-toto Statement,
Sigstore bundle, C2SP signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof and tlog-policy,
RFC 6962. It shares no line with what signs and logs. Hashes are computed here; for signatures it
needs the package `cryptography` or the program `openssl`, and says which it had.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from theatre.engine.bundle_check.arithmetic import Document, parsed_time, written_time
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed
from theatre.engine.bundle_check.plain_records import sha256

MAX_PROOF_BYTES, MAX_NOTE_BYTES, MAX_STATEMENT_BYTES = 256 * 1024, 64 * 1024, 1024 * 1024
MAX_ENTRY_BYTES: Final = 1024
MAX_TREE_SIZE: Final = 2**63 - 1
MAX_PROOF_HASHES: Final = 63
HASH_BYTES: Final = 32
LOG, WITNESS = 1, 4
"""The kinds of Ed25519 keys: the first byte of what a key's text encodes."""
NAME: Final = re.compile(r"[^\s+]+")
DECIMAL: Final = re.compile("0|[1-9][0-9]{0,18}")
MOMENT: Final = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]{1,6})?Z")
CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
P256_HEAD: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""What the DER of an uncompressed P-256 key begins with; x and y follow, 32 bytes each."""
P256: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
P256_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
ED25519_HEAD: Final = bytes.fromhex("302a300506032b6570032100")
KNOWN_KEY: Final = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
KNOWN_SIGNATURE: Final = (
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)
"""RFC 8032, 7.1, test 3: a signature of the bytes af82."""


# Signatures: (public key in DER, signature, message) → whether it is one. P-256 with SHA-256 and a
# DER signature, or Ed25519.

Verify = Callable[[bytes, bytes, bytes], bool]


def verify_with_package(key: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether a key signed a message, by the package `cryptography`."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - it may be missing
    from cryptography.hazmat.primitives.asymmetric.ec import (  # noqa: PLC0415
        ECDSA,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_der_public_key,
    )

    public = load_der_public_key(key)
    try:
        if isinstance(public, EllipticCurvePublicKey):
            public.verify(signature, message, ECDSA(SHA256()))
        elif isinstance(public, Ed25519PublicKey):
            public.verify(signature, message)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def verify_with_openssl(key: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether a key signed a message, by the program `openssl`, 3.0 or newer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encoded = base64.encodebytes(key).decode()
        pem = f"-----BEGIN PUBLIC KEY-----\n{encoded}-----END PUBLIC KEY-----\n"
        (folder / "key").write_text(pem)
        (folder / "signature").write_bytes(signature)
        (folder / "message").write_bytes(message)
        if key.startswith(ED25519_HEAD):
            asked = "pkeyutl -verify -rawin -pubin -inkey key -sigfile signature -in message"
        else:
            asked = "dgst -sha256 -verify key -signature signature message"
        command = ["openssl", *asked.split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603 - nothing of a stranger is in it
        return done.returncode == 0


def find_verifier() -> tuple[str, Verify | None]:
    """Return what checks signatures here, in words, and how; None where nothing can.

    Each must accept a known signature and refuse another: a program that cannot would accept all.
    """
    key, signature = ED25519_HEAD + bytes.fromhex(KNOWN_KEY), bytes.fromhex(KNOWN_SIGNATURE)
    for name, verify in (
        ("the package cryptography", verify_with_package),
        ("openssl", verify_with_openssl),
    ):
        if verify is verify_with_openssl and shutil.which("openssl") is None:
            continue
        try:
            knows = [verify(key, signature, b"\xaf\x82"), verify(key, signature, b"\xaf\x83")]
        except (ImportError, OSError):
            continue
        if knows == [True, False]:
            return name, verify
    return "neither the package cryptography nor openssl 3 is here", None


# Encodings, keys and notes.


def decoded(text: str) -> bytes:
    """Return the bytes of base64 in its one spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise DefectError(f"expected base64, got {text!r:.40}") from error
    if base64.b64encode(data).decode() != text:
        raise DefectError(f"expected base64 as encoding gives it, got {text!r:.40}")
    return data


def number(text: str) -> int:
    """Return a size or an index."""
    if not DECIMAL.fullmatch(text) or int(text) > MAX_TREE_SIZE:
        raise DefectError(f"expected a decimal number, got {text!r:.40}")
    return int(text)


def moment(text: str) -> datetime:
    """Return a time of `trust.json`: RFC 3339 in UTC."""
    if not MOMENT.fullmatch(text):
        raise DefectError(f"expected a time in UTC, got {text!r:.40}")
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class NoteKey:
    """The key of a log or a witness; `id` is what its signature lines begin with."""

    name: str
    kind: int
    public: bytes

    @property
    def id(self) -> bytes:
        """Four bytes of a hash over name, kind and key."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:4]


def note_key(text: str) -> NoteKey:
    """Return the key that `name+id+base64` stands for."""
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    material = decoded(encoded)
    key = NoteKey(name, material[0] if material else 0, material[1:])
    right = NAME.fullmatch(name) and key.kind in {LOG, WITNESS} and len(key.public) == HASH_BYTES
    if not right or key.id.hex() != key_id:
        raise DefectError(f"expected the key of a log or a witness, got {text!r:.80}")
    return key


Signed = tuple[str, bytes, bytes]
"""A signature line of a note: name, id of the key, signature."""


def note_of(data: bytes) -> tuple[str, list[Signed]]:
    """Return the text of a note, and its signature lines."""
    whole = data.decode()
    if len(data) > MAX_NOTE_BYTES or any(sign < " " and sign != "\n" for sign in whole):
        raise DefectError("expected a note of at most 64 KiB without control characters")
    text, blank, below = whole.rpartition("\n\n")
    if not blank or not below.endswith("\n"):
        raise DefectError("expected a text, an empty line and signature lines")
    lines = []
    for line in below[:-1].split("\n"):
        name, _, encoded = line.removeprefix("— ").partition(" ")
        if not line.startswith("— ") or not NAME.fullmatch(name):
            raise DefectError(f"expected a signature line, got {line!r:.40}")
        blob = decoded(encoded)
        if len(blob) <= 4:  # noqa: PLR2004 - the length of an id
            raise DefectError("expected a signature behind the id of its key")
        lines.append((name, blob[:4], blob[4:]))
    return text + "\n", lines


# Whom the reader trusts.


@dataclass
class Policy:
    """A tlog-policy: the logs, the witnesses by name, groups of them, and the quorum."""

    logs: set[NoteKey] = field(default_factory=set)
    witnesses: dict[str, NoteKey] = field(default_factory=dict)
    groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    quorum: str | None = None

    def require_quorum(self, seen: set[NoteKey]) -> None:
        """Raise DefectError unless these witnesses are enough."""
        if not self.counts(str(self.quorum), seen):
            names = ", ".join(sorted(key.name for key in seen)) or "none"
            raise DefectError(f"expected the witnesses of {self.quorum}, got {names}")

    def counts(self, name: str, seen: set[NoteKey]) -> bool:
        """Tell whether a witness, or enough of a group, is among those seen."""
        if name == "none":
            return True
        if name in self.witnesses:
            return self.witnesses[name] in seen
        least, members = self.groups[name]
        return sum(self.counts(member, seen) for member in members) >= least

    def take(self, words: list[str]) -> None:
        """Read the words of one line."""
        known = self.witnesses.keys() | self.groups.keys() | {"none"}
        match words:
            case ["log", key] | ["log", key, _]:
                self.logs.add(self.new_key(key, LOG, self.logs))
            case ["witness", name, key] | ["witness", name, key, _] if name not in known:
                self.witnesses[name] = self.new_key(key, WITNESS, set(self.witnesses.values()))
            case ["group", name, least, *members] if members and name not in known:
                enough = {"any": 1, "all": len(members)}.get(least) or number(least)
                taken = [one for _, others in self.groups.values() for one in others]
                right = known - {"none", *taken} >= set(members) and len(set(members)) == len(
                    members
                )
                if not right or not 1 <= enough <= len(members):
                    raise DefectError(f"expected a group of known members, got {words}")
                self.groups[name] = (enough, members)
            case ["quorum", name] if self.quorum is None and name in known:
                self.quorum = name
            case _:
                raise DefectError(f"expected a line of a policy, got {' '.join(words):.60}")

    @staticmethod
    def new_key(text: str, kind: int, known: set[NoteKey]) -> NoteKey:
        """Return a key; under two names it would count twice."""
        key = note_key(text.encode("latin-1").decode("utf-8", "replace"))
        if key.kind != kind or any(other.public == key.public for other in known):
            raise DefectError(f"expected a new key of its kind, got {text!r:.80}")
        return key


def policy_of(data: bytes) -> Policy:
    """Return the policy of a file."""
    if CONTROL.search(data):
        raise DefectError("expected a policy without control characters")
    policy = Policy()
    for line in data.decode("latin-1").split("\n"):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if words and not words[0].startswith("#"):
            policy.take(words)
    if policy.quorum is None:
        raise DefectError("expected a line with the quorum in the policy")
    return policy


@dataclass(frozen=True)
class IssuerKey:
    """A key that signs certificates, and when it counts."""

    der: bytes
    valid_from: datetime
    valid_until: datetime | None
    revoked_index: int | None


@dataclass(frozen=True)
class Reader:
    """Whom a reader trusts: an issuer's keys by id, his log, and a policy of witnesses."""

    issuer: str
    keys: dict[str, IssuerKey]
    log: NoteKey
    policy: Policy
    words: str


def reader_of(data: bytes, policy: bytes | None = None, *, came_with_it: bool = False) -> Reader:
    """Return who trusts a `trust.json`, and in place of its policy his own.

    `came_with_it`: the file lies in the bundle.
    """
    try:
        document = parsed(data, "trust.json")
        log, text = document["log"], document["policy"]
        reader = Reader(
            issuer=document["issuer"],
            keys=dict(map(issuer_key, document["keys"])),
            log=note_key(log["vkey"]),
            policy=policy_of(text.encode() if policy is None else policy),
            words=f"signed by a key of {document['issuer']}"
            + ", by the trust.json that came with it: who trusts that trusts its maker"
            * came_with_it,
        )
        policy_of(text.encode())
        right = (
            isinstance(document["keys"], list)
            and len(reader.keys) == len(document["keys"])
            and log["origin"] == reader.log.name
            and type(log["url"]) in {str, type(None)}
            and isinstance(reader.issuer, str)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DefectError(f"expected a trust.json, got another document: {error}") from error
    if not right:
        raise DefectError("expected a trust.json with each key once and its log, got another")
    return reader


def issuer_key(document: Document) -> tuple[str, IssuerKey]:
    """Return the id of an issuer's key, and the key: a point of P-256 in DER."""
    der, until = decoded(document["public_key"]), document["valid_until"]
    revoked = document["revoked_index"]
    point = der.removeprefix(P256_HEAD)
    x, y = int.from_bytes(point[:32]), int.from_bytes(point[32:])
    on_curve = x < P256 and y < P256 and (y * y - x * x * x + 3 * x - P256_B) % P256 == 0
    if len(der) != len(P256_HEAD) + 64 or len(point) != 64 or not on_curve:  # noqa: PLR2004
        raise DefectError("expected a P-256 key in DER, got other bytes")
    if sha256(der) != document["kid"] or type(revoked) not in {int, type(None)}:
        raise DefectError("expected the id of each key to be its hash, got another")
    return sha256(der), IssuerKey(
        der=der,
        valid_from=moment(document["valid_from"]),
        valid_until=None if until is None else moment(until),
        revoked_index=revoked,
    )


# The proofs.


@dataclass(frozen=True)
class LogEntry:
    """An entry of a trusted log: its place, and the checkpoint that has it."""

    place: int
    origin: str
    size: int
    text: str
    cosigned: dict[NoteKey, int]
    """Witness → when it saw the checkpoint, in seconds since 1970."""


@dataclass(frozen=True)
class ProofLine:
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
Told = tuple[str, bool | None]


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
        steps: dict[str, Callable[[], Told]] = {
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

    def check_signature(self) -> Told:
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

    def check_commitment(self) -> Told:
        """Check that a log has the commitment, and that the run's draws hold its nonce."""
        data, certificate = self.file("commitment.tlog-proof"), self.evidence.certificate
        if data is None:
            return "no commitment.tlog-proof: no log shows it", None
        # Anyone can see this: a run without the value that the log gave may have begun before.
        nonce = sha256(proof_of(data)[2].rpartition(b"\n\n")[0] + b"\n")
        if nonce != self.evidence.draws.run_nonce.hex():
            raise DefectError(f"expected draws with the nonce {nonce}: the run began before it")
        if self.reader is None or self.untold():
            return str(self.untold()), None
        names = ("theatre_id", "construct_id", "construct_version", "template_id", "coin_sha256")
        plain = certificate["commitment_hash"]
        days = 30
        if self.evidence.template["schema_version"] == "2.2.0":
            days = self.evidence.policy.get("close_within_days", days)
        day = parsed_time(certificate["theatre_committed_at"]) + timedelta(days=days)
        entry: Document = {name: certificate[name] for name in names}
        entry |= {"type": "commitment/v1", "commitment_hash": plain, "close_by": written_time(day)}
        # A template that is not public: the coin opens the entry.
        salt = hmac.digest(self.evidence.coin, plain.encode(), "sha256").hex()
        salted = entry | {"commitment_hash": salt, "salted": True}
        self.committed = self.look_up(data, self.reader, [entry, salted])
        return f"entry {self.committed.place} of {self.committed.origin}", True

    def check_certificate(self) -> Told:
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

    def check_signer(self) -> Told:
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

    def check_order(self) -> Told:
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
        return f"committed at {first.place}, certified at {last.place}", True

    def check_witnesses(self) -> Told:
        """Check that enough witnesses saw both checkpoints."""
        if self.committed is None or self.closed is None or self.reader is None:
            return "rests on both entries", None
        both = [set(self.committed.cosigned), set(self.closed.cosigned)]
        for seen in both:
            self.reader.policy.require_quorum(seen)
        if not all(both):
            return "no witness is asked for: the log's word alone", None
        return "cosigned by " + ", ".join(sorted({key.name for key in both[0] | both[1]})), True


def proof_of(data: bytes) -> tuple[int, list[bytes], bytes]:
    """Return place, hashes and checkpoint of a `tlog-proof` file."""
    head, blank, checkpoint = data.partition(b"\n\n")
    lines = head.decode("ascii").split("\n")
    if len(data) > MAX_PROOF_BYTES or not blank or lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise DefectError("expected a tlog-proof of at most 256 KiB")
    if lines and lines[0].startswith("extra "):
        decoded(lines.pop(0).removeprefix("extra "))
    if not lines or not lines[0].startswith("index "):
        raise DefectError("expected a line with the entry's index")
    place = number(lines.pop(0).removeprefix("index "))
    hashes = [decoded(line) for line in lines]
    if len(hashes) > MAX_PROOF_HASHES or any(len(one) != HASH_BYTES for one in hashes):
        raise DefectError("expected at most 63 hashes of 32 bytes")
    return place, hashes, checkpoint


def checkpoint_of(text: str) -> tuple[str, int, bytes]:
    """Return name, size and root of a log, from the text of its checkpoint."""
    origin, size, root, end = [*text.split("\n"), "", "", ""][:4]
    if not origin or end or text.count("\n") != 3 or len(decoded(root)) != HASH_BYTES:  # noqa: PLR2004
        raise DefectError(f"expected a checkpoint of three lines, got {text!r:.80}")
    return origin, number(size), decoded(root)


def root_above(leaf: bytes, place: int, size: int, hashes: list[bytes]) -> bytes:
    """Return the root that a proof leads to from an entry's hash (RFC 9162, 2.1.3.2)."""
    if not place < size:
        raise DefectError(f"expected the index of one of {size} entries, got {place}")
    node, last, root = place, size - 1, leaf
    for one in hashes:
        if last == 0:
            raise DefectError("expected fewer hashes in the proof")
        if node % 2 or node == last:
            root = hashlib.sha256(b"\x01" + one + root).digest()
            while node and not node % 2:
                node, last = node // 2, last // 2
        else:
            root = hashlib.sha256(b"\x01" + root + one).digest()
        node, last = node // 2, last // 2
    if last != 0:
        raise DefectError("expected more hashes in the proof")
    return root


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
