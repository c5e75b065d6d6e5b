"""The process of the policy gate: what is expected and a proposal in, a decision out."""

import sys
from typing import BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.kernel.frames import read_frame, write_frame
from theatre.axion.kernel.invariants import Expected
from theatre.axion.kernel.policy_gate import decide
from theatre.engine.canonical_json import parse_object


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer pairs of messages (expected, proposal) until the other end closes."""
    while (expected := read_frame(requests)) is not None:
        proposal = read_frame(requests) or b""
        decision = decide(proposal, Expected.of(parse_object(expected)))
        write_frame(answers, canonical_bytes(decision.as_document()))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
