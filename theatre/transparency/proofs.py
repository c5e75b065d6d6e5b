"""Proofs in files: that a log holds an entry, and that a witness may cosign a checkpoint.

Source: C2SP tlog-proof, tlog-witness; docs/contract/trust.md §4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from theatre.engine.merkle import leaf_hash
from theatre.transparency.errors import MalformedError
from theatre.transparency.merkle import HASH_BYTES, verify_inclusion
from theatre.transparency.notes import SignedCheckpoint, decode_base64, encode_base64, parse_decimal
from theatre.transparency.policy import Policy

_HEADER: Final = "c2sp.org/tlog-proof@v1"
MAX_PROOF_BYTES: Final = 256 * 1024
_MAX_HASHES: Final = 63


@dataclass(frozen=True, slots=True)
class LogProof:
    """Where an entry stands in the tree of a checkpoint, and the hashes that show it.

    `extra` is not authenticated by the log: who uses it must verify it by other means.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    @classmethod
    def parse(cls, data: bytes) -> "LogProof":
        """Read a `.tlog-proof` file; MalformedError for another format or over 256 KiB."""
        if len(data) > MAX_PROOF_BYTES:
            raise MalformedError(f"expected a proof of at most {MAX_PROOF_BYTES} bytes, got more")
        head, blank, checkpoint = data.partition(b"\n\n")
        try:
            lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise MalformedError("expected a proof in ASCII, got other bytes") from error
        if not blank or lines.pop(0) != _HEADER:
            raise MalformedError(f"expected a proof that begins with {_HEADER}, got another file")
        extra = None
        if lines and lines[0].startswith("extra "):
            extra = decode_base64(lines.pop(0).removeprefix("extra "))
        if not lines or not lines[0].startswith("index "):
            raise MalformedError("expected a line with the entry's index, got none")
        index = parse_decimal(lines.pop(0).removeprefix("index "), "the entry's index")
        return cls(index, parse_hashes(lines), checkpoint, extra)

    def __bytes__(self) -> bytes:
        extra = "" if self.extra is None else f"extra {encode_base64(self.extra)}\n"
        head = f"{_HEADER}\n{extra}index {self.index}\n{format_hashes(self.hashes)}\n"
        return head.encode("ascii") + self.checkpoint

    def verify(self, entry: bytes, policy: Policy) -> SignedCheckpoint:
        """Return the checkpoint of a trusted log whose tree has `entry` at this index.

        Raises ProofError where it has not, and what `Policy.verify_checkpoint` raises.
        """
        signed = policy.verify_checkpoint(self.checkpoint)
        verify_inclusion(
            leaf_hash(entry),
            index=self.index,
            size=signed.checkpoint.size,
            proof=self.hashes,
            root=signed.checkpoint.root,
        )
        return signed


def parse_hashes(lines: Sequence[str]) -> tuple[bytes, ...]:
    """Read a proof's hashes, one a line; MalformedError for another form, or over 63."""
    hashes = tuple(map(decode_base64, lines))
    if len(hashes) > _MAX_HASHES or any(len(one) != HASH_BYTES for one in hashes):
        raise MalformedError(f"expected at most {_MAX_HASHES} hashes of 32 bytes, got others")
    return hashes


def format_hashes(hashes: Sequence[bytes]) -> str:
    """Return a proof's hashes, one a line."""
    return "".join(f"{encode_base64(one)}\n" for one in hashes)


class WitnessRequest(NamedTuple):
    """What a log asks a witness to cosign: a checkpoint that continues the one of `old` leaves."""

    old: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes

    @classmethod
    def parse(cls, body: bytes) -> "WitnessRequest":
        """Read the body of `add-checkpoint`; MalformedError for another format."""
        head, blank, checkpoint = body.partition(b"\n\n")
        try:
            lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise MalformedError("expected a request in ASCII, got other bytes") from error
        if not blank or not lines[0].startswith("old "):
            raise MalformedError("expected the old size and a checkpoint, got another request")
        old = parse_decimal(lines[0].removeprefix("old "), "the old size")
        return cls(old, parse_hashes(lines[1:]), checkpoint)

    def __bytes__(self) -> bytes:
        return f"old {self.old}\n{format_hashes(self.hashes)}\n".encode("ascii") + self.checkpoint
