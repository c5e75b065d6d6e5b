"""The kit's server on stdin and stdout: one envelope a line in, one out, until the end of input."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, NoReturn

from theatre.construct_kit.envelopes import MAX_QUESTION_BYTES, QuestionError, read_question
from theatre.construct_kit.served_construct import ServedConstruct, make_servable
from theatre.engine.errors import ParseError

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CHUNK_BYTES = 65536
_EXIT_BY_SIGNAL = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The two ends of the protocol, on descriptors that nothing else writes to or reads from."""

    questions: BinaryIO
    answers: io.FileIO


def serve_stdio(function: Callable[..., object]) -> None:
    """Answer one envelope a line until stdin ends. Call it from the main thread.

    From the call on, what anything in the process prints goes to stderr, and its stdin is
    empty; what was printed before has already gone where the answers go. SIGTERM and SIGINT end
    the process at once, by way of its exit handlers (and threads, where it started any that
    Python waits for). Raises ConstructVersionError as `make_servable`.
    """
    wire = claim_stdio()
    answer_lines(make_servable(function), wire)


def claim_stdio() -> Wire:
    """Take stdin and stdout for the protocol, and let SIGTERM and SIGINT end the process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    # Without a buffer, which would still hold what a runner that has gone did not take.
    answers = os.fdopen(os.dup(_STDOUT), "wb", buffering=0)
    wire = Wire(questions=os.fdopen(os.dup(_STDIN), "rb"), answers=answers)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    # Descriptors, not `sys.stdout`: C code and child processes print as well.
    os.dup2(_STDERR, _STDOUT)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A pipe is written in blocks; then a call's prints would come with a later call.
        sys.stdout.reconfigure(line_buffering=True)
    return wire


def answer_lines(construct: ServedConstruct, wire: Wire) -> None:
    """Answer every line of `wire`, in order; return at its end, or when the reader is gone."""
    with contextlib.suppress(BrokenPipeError):
        for line in _lines(wire.questions):
            try:
                question = read_question(line)
            except (ParseError, QuestionError) as error:
                answer = construct.rejection(str(error))
            else:
                answer = construct.answer(question).body
            rest = memoryview(answer + b"\n")
            while rest:
                rest = rest[wire.answers.write(rest) :]


def _lines(questions: BinaryIO) -> Iterator[bytes]:
    """Yield each line without its line feed; one that is too long just longer than allowed."""
    while line := questions.readline(MAX_QUESTION_BYTES + 1):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = questions.readline(_CHUNK_BYTES)
        yield line.removesuffix(b"\n")


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End by an exception: the callable may have something to close."""
    sys.exit(_EXIT_BY_SIGNAL + number)
