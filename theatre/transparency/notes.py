"""Signed notes: a text with signature lines, the keys of logs and witnesses, and checkpoints.

Source: C2SP signed-note, tlog-checkpoint, tlog-cosignature. Ed25519 only: type 1 signs the text,
type 4 (a witness's cosignature) signs a time with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from theatre.transparency.errors import MalformedError, SignatureError
from theatre.transparency.merkle import HASH_BYTES, MAX_TREE_SIZE

Sign = Callable[[bytes], bytes]
"""Signs a message with an Ed25519 key: a file's, a KMS's or an HSM's."""

MAX_NOTE_BYTES: Final = 64 * 1024
_MARK: Final = "— "
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_TIME = struct.Struct(">Q")
_NAME = re.compile(r"[^\s+]+")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")


class KeyKind(IntEnum):
    """What a key signs; the number is the type byte of its id."""

    LOG = 1
    WITNESS = 4


def decode_base64(text: str) -> bytes:
    """Return the bytes of standard base64.

    Raises MalformedError for any spelling but the one that encoding gives: otherwise a proof could
    be changed without a change of what it says.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"expected base64, got {text!r:.60}") from error
    if encode_base64(data) != text:
        raise MalformedError(f"expected base64 as encoding gives it, got {text!r:.60}")
    return data


def encode_base64(data: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(data).decode("ascii")


def parse_decimal(text: str, what: str) -> int:
    """Return a number without leading zeros, at most the largest tree's size."""
    if not _DECIMAL.fullmatch(text) or (value := int(text)) > MAX_TREE_SIZE:
        raise MalformedError(f"expected {what} as a decimal number, got {text!r:.40}")
    return value


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The public key of a log or a witness, under its name."""

    name: str
    kind: KeyKind
    public: bytes

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.public) != _KEY_BYTES:
            raise MalformedError(
                "expected a key of 32 bytes with a name without spaces and plus signs, "
                f"got {len(self.public)} bytes named {self.name!r:.60}"
            )

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read `name+id+base64`; MalformedError for another form, kind or id."""
        name, _, rest = text.partition("+")
        key_id, _, encoded = rest.partition("+")
        material = decode_base64(encoded)
        if material[:1] not in {bytes([kind]) for kind in KeyKind}:
            raise MalformedError(f"expected an Ed25519 key of a log or witness, got {text!r:.80}")
        key = cls(name, KeyKind(material[0]), material[1:])
        if key.key_id.hex() != key_id:
            raise MalformedError(f"expected the key id {key.key_id.hex()}, got {key_id!r:.20}")
        return key

    @property
    def key_id(self) -> bytes:
        """Return the four bytes that a signature line begins with."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        """Return the text that policies and `trust.json` hold."""
        material = encode_base64(bytes([self.kind]) + self.public)
        return f"{self.name}+{self.key_id.hex()}+{material}"

    def check(self, message: bytes, signature: bytes) -> None:
        """Raise SignatureError unless the key signed `message`."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature as error:
            raise SignatureError(f"expected a signature by {self.name}, got another") from error


class SignatureLine(NamedTuple):
    """A line of a note: whose it says it is, and the bytes behind the key's id."""

    name: str
    key_id: bytes
    signature: bytes

    def __str__(self) -> str:
        """Return the line, with its line feed."""
        return f"{_MARK}{self.name} {encode_base64(self.key_id + self.signature)}\n"

    @classmethod
    def parse(cls, line: str) -> SignatureLine:
        """Read a line without its line feed; MalformedError for another form."""
        name, _, encoded = line.removeprefix(_MARK).partition(" ")
        if not line.startswith(_MARK) or not _NAME.fullmatch(name):
            raise MalformedError(f"expected a signature line, got {line!r:.60}")
        blob = decode_base64(encoded)
        if len(blob) <= _KEY_ID_BYTES:
            raise MalformedError("expected a signature behind the key id, got none")
        return cls(name, blob[:_KEY_ID_BYTES], blob[_KEY_ID_BYTES:])


def parse_signature_lines(text: str) -> tuple[SignatureLine, ...]:
    """Read the lines that end a note, or that a witness answers."""
    if not text.endswith("\n"):
        raise MalformedError("expected signature lines that end in a line feed, got none")
    return tuple(map(SignatureLine.parse, text[:-1].split("\n")))


class Note(NamedTuple):
    """A text that ends in a line feed, and the signatures below it."""

    text: str
    signatures: tuple[SignatureLine, ...]

    @classmethod
    def parse(cls, data: bytes) -> Note:
        """Read a note; MalformedError for what is none, or longer than 64 KiB."""
        if len(data) > MAX_NOTE_BYTES:
            raise MalformedError(f"expected a note of at most {MAX_NOTE_BYTES} bytes, got more")
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError("expected a note in UTF-8, got other bytes") from error
        if _CONTROL.search(whole):
            raise MalformedError("expected a note without control characters, got one")
        text, blank, lines = whole.rpartition("\n\n")
        if not blank:
            raise MalformedError("expected a text, an empty line and signatures, got no such note")
        return cls(f"{text}\n", parse_signature_lines(lines))

    def __bytes__(self) -> bytes:
        return f"{self.text}\n{''.join(map(str, self.signatures))}".encode()

    def signed_by(self, keys: Iterable[VerifierKey]) -> Mapping[VerifierKey, int | None]:
        """Return which of `keys` signed, with the time (seconds since 1970) of a cosignature.

        Lines of unknown keys are ignored, as the format asks. Raises SignatureError where a line
        names a known key and is not its signature.
        """
        known = {(key.name, key.key_id): key for key in keys}
        signed: dict[VerifierKey, int | None] = {}
        for line in self.signatures:
            key = known.get((line.name, line.key_id))
            if key is not None:
                signed[key] = _check_line(key, self.text.encode(), line.signature)
        return signed


def _check_line(key: VerifierKey, text: bytes, signature: bytes) -> int | None:
    if key.kind is KeyKind.LOG:
        key.check(text, signature)
        return None
    if len(signature) != _TIME.size + _SIGNATURE_BYTES:
        raise SignatureError(f"expected a time and a signature by {key.name}, got another length")
    at: int = _TIME.unpack_from(signature)[0]
    key.check(_cosigned(text, at), signature[_TIME.size :])
    return at


def _cosigned(text: bytes, at: int) -> bytes:
    return b"cosignature/v1\ntime %d\n%b" % (at, text)


def sign_text(text: str, key: VerifierKey, sign: Sign) -> SignatureLine:
    """Return a log's signature of a text."""
    return SignatureLine(key.name, key.key_id, sign(text.encode()))


def cosign_text(text: str, key: VerifierKey, sign: Sign, *, at: int) -> SignatureLine:
    """Return a witness's cosignature; `at` in seconds since 1970."""
    signature = sign(_cosigned(text.encode(), at))
    return SignatureLine(key.name, key.key_id, _TIME.pack(at) + signature)


class Checkpoint(NamedTuple):
    """What a log says of its tree: its name, how many entries, and the root."""

    origin: str
    size: int
    root: bytes

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read the text of a note; extension lines are refused, as no monitor can audit them."""
        lines = text.split("\n")
        if len(lines) != len(("origin", "size", "root", "")) or not lines[0]:
            raise MalformedError(f"expected a checkpoint of three lines, got {text!r:.80}")
        size, root = parse_decimal(lines[1], "the tree's size"), decode_base64(lines[2])
        if len(root) != HASH_BYTES:
            raise MalformedError(f"expected a root of {HASH_BYTES} bytes, got {len(root)}")
        return cls(lines[0], size, root)

    def __str__(self) -> str:
        """Return the text that is signed."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"


class SignedCheckpoint(NamedTuple):
    """A checkpoint that its log signed, and who cosigned it: time in seconds since 1970."""

    note: Note
    checkpoint: Checkpoint
    cosigned: Mapping[VerifierKey, int]

    @classmethod
    def verify(
        cls, data: bytes, logs: Iterable[VerifierKey], witnesses: Sequence[VerifierKey] = ()
    ) -> SignedCheckpoint:
        """Read a checkpoint that one of `logs` signed under its own name.

        Raises MalformedError for another text, SignatureError where no such log signed it, or where
        a line of a known witness is not its signature.
        """
        note = Note.parse(data)
        checkpoint = Checkpoint.parse(note.text)
        keys = [key for key in logs if key.name == checkpoint.origin and key.kind is KeyKind.LOG]
        if not note.signed_by(keys):
            raise SignatureError(
                f"expected a checkpoint of a trusted log, got one of {checkpoint.origin!r:.80}"
            )
        signed = note.signed_by([key for key in witnesses if key.kind is KeyKind.WITNESS])
        return cls(note, checkpoint, {key: at for key, at in signed.items() if at is not None})
