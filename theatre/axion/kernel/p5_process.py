"""The process of P5-MCI: closed documents in, verdicts out, nothing else to look at."""

import sys
from typing import BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.schema_load import violations
from theatre.axion.kernel.frames import read_frame, write_frame
from theatre.axion.kernel.probe_engine import examine
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import TheatreError


def answer(data: bytes) -> bytes:
    """Return the verdict on one document, canonical, or `{"refused": why}`."""
    try:
        document = parse_object(data)
        if violations("ext/p5_input", document):
            return canonical_bytes({"refused": "expected a closed P5 input, got something else"})
        return canonical_bytes(examine(document))
    except TheatreError as error:
        return canonical_bytes({"refused": str(error)})


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer message after message until the other end closes."""
    while (data := read_frame(requests)) is not None:
        write_frame(answers, answer(data))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
