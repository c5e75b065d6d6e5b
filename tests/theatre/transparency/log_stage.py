"""Keys, stores and logs for the tests of the transparency log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from theatre.transparency.notes import KeyKind, Sign, VerifierKey


@dataclass(frozen=True)
class Signer:
    """A key with its public half."""

    key: VerifierKey
    sign: Sign = field(repr=False)


def signer(name: str, kind: KeyKind = KeyKind.LOG, seed: int = 1) -> Signer:
    """Return the signer that a seed gives."""
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return Signer(VerifierKey(name, kind, private.public_key().public_bytes_raw()), private.sign)


def entry(number: int) -> bytes:
    """Return an entry that no other number has."""
    return b'{"number":%d}' % number


def entries(start: int, end: int) -> list[bytes]:
    """Return the entries of these numbers."""
    return [entry(number) for number in range(start, end)]


def without(files: Mapping[str, bytes], names: Sequence[str]) -> dict[str, bytes]:
    """Return files without some of them."""
    return {name: data for name, data in files.items() if name not in names}
