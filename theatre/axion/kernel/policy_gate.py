"""The policy gate: bytes in, a decision out. Strict JSON, then the schema, then the invariants.

The kernel runs it as a process: what is expected and a proposal in, a decision out.
"""

import sys
from dataclasses import dataclass
from typing import BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import NO_HASH, Document, hash_json, trace_hash
from theatre.axion.common.schema_load import violations
from theatre.axion.kernel.frames import read_frame, write_frame
from theatre.axion.kernel.invariants import Expected, Witness, broken_invariants
from theatre.engine.canonical_json import parse_object, sha256_hex
from theatre.engine.errors import ParseError

MAX_PROPOSAL_BYTES = 4 * 1024 * 1024
_MOST_WITNESSES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a proposal may continue, and every witness against it.

    The hashes are 64 zeros where the bytes were no valid proposal: it has none then.
    """

    allowed: bool
    notes: str
    witnesses: tuple[Document, ...]
    proposal_hash: str = NO_HASH
    trace_hash: str = NO_HASH

    def as_document(self) -> Document:
        """Return the form that travels back from the gate's process."""
        return {
            "allowed": self.allowed,
            "notes": self.notes,
            "witnesses": list(self.witnesses),
            "proposal_hash": self.proposal_hash,
            "trace_hash": self.trace_hash,
        }

    @classmethod
    def of(cls, document: Document) -> "Decision":
        """Return what `as_document` wrote."""
        return cls(**{**document, "witnesses": tuple(document["witnesses"])})


def decide(data: bytes, expected: Expected) -> Decision:
    """Return the decision on the bytes of a proposal. Never raises for what is in them."""
    try:
        proposal: Document = parse_object(data, max_bytes=MAX_PROPOSAL_BYTES)
    except ParseError as error:
        return _unreadable(data, [("SCHEMA", f"{error.reason}: {error}")])
    found = violations("proposal", proposal)
    if found:
        messages = [("SCHEMA", f"{one.pointer or 'the root'}: {one.detail}") for one in found]
        return _unreadable(data, messages)
    witnesses = [one.as_document() for one in broken_invariants(proposal, expected)]
    return Decision(
        allowed=not witnesses,
        notes="denied by invariants" if witnesses else "",
        witnesses=tuple(witnesses[:_MOST_WITNESSES]),
        proposal_hash=hash_json(proposal),
        trace_hash=trace_hash(proposal["trace"]),
    )


def _unreadable(data: bytes, messages: list[tuple[str, str]]) -> Decision:
    seen = sha256_hex(data)
    witnesses = [
        {**Witness(invariant, message).as_document(), "data_hash": seen}
        for invariant, message in messages[:_MOST_WITNESSES]
    ]
    return Decision(allowed=False, notes="no valid proposal", witnesses=tuple(witnesses))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer pairs of messages (expected, proposal) until the other end closes."""
    while (expected := read_frame(requests)) is not None:
        proposal = read_frame(requests) or b""
        decision = decide(proposal, Expected.of(parse_object(expected)))
        write_frame(answers, canonical_bytes(decision.as_document()))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
