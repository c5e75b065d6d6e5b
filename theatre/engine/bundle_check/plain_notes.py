"""Notes, keys, proofs and `trust.json`, for `verify_bundle.py`: their formats, and signatures.

Written from docs/contract/trust.md and the public formats that it names: C2SP signed-note,
tlog-checkpoint, tlog-proof and tlog-policy, RFC 6962. It shares no line with what signs and logs.
Hashes are computed here; for signatures it needs the package `cryptography` or the program
`openssl`, and says which it had.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import Document
from theatre.engine.bundle_check.plain_json import DefectError, parsed
from theatre.engine.bundle_check.plain_records import sha256

MAX_PROOF_BYTES, MAX_NOTE_BYTES = 256 * 1024, 64 * 1024
MAX_TREE_SIZE: Final = 2**63 - 1
MAX_PROOF_HASHES: Final = 63
HASH_BYTES: Final = 32
LOG, WITNESS = 1, 4
"""The kinds of Ed25519 keys: the first byte of what a key's text encodes."""
NAME: Final = re.compile(r"[^\s+]+")
DECIMAL: Final = re.compile("0|[1-9][0-9]{0,18}")
MOMENT: Final = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]{1,6})?Z")
CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
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
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415

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


class NoteKey(NamedTuple):
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


class IssuerKey(NamedTuple):
    """A key that signs certificates, and when it counts."""

    der: bytes
    valid_from: datetime
    valid_until: datetime | None
    revoked_index: int | None


class Reader(NamedTuple):
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
