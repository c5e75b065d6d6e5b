"""The kit on stdin and stdout, as a real process: the protocol holds whatever a construct does."""

import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.theatre.construct_kit.kit_process import (
    KIT,
    PATIENCE_SECONDS,
    VERSION,
    Document,
    WriteModule,
    answer,
    encoded,
    environment,
    question,
    stdio_process,
    talk,
)

ECHO = """
from theatre.construct_kit import Refusal, construct

@construct(id="pilot")
def answer(input_data):
    if input_data["seq"] == 2:
        raise Refusal("not the second")
    if input_data["seq"] == 3:
        raise ValueError("not the third")
    return {"echo": input_data}
"""

NOISY = """
import ctypes, os, subprocess, sys

print("noise: import")

def answer(input_data):
    print("noise: print")
    sys.__stdout__.write("noise: the first stdout\\n")
    os.write(1, b"noise: descriptor\\n")
    os.system("echo noise: shell")
    subprocess.run(["echo", "noise: child"])
    libc = ctypes.CDLL(None)
    libc.puts(b"noise: C")
    libc.fflush(None)
    return {"seen": input_data["seq"]}
"""

CURIOUS = """
import subprocess, sys

def answer(input_data):
    child = subprocess.run(["cat"], capture_output=True)
    return {"own": sys.stdin.read(), "child": child.stdout.decode()}
"""

SLOW = """
import asyncio, atexit

def answer(input_data):
    open(input_data["gate"]).read()

async def answer_later(input_data):
    open(input_data["gate"]).close()
    await asyncio.Event().wait()

atexit.register(print, "tidied up")
"""


def asked_in_time(process: subprocess.Popen[bytes], seq: int) -> Document:
    """Put one question to a process whose stdin stays open, and return the answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encoded(question(seq)) + b"\n")
    process.stdin.flush()
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert readable, "the server has not answered"
    document: Document = json.loads(process.stdout.readline())
    return document


def test_each_line_gets_its_answer_in_order(write_module: WriteModule) -> None:
    said = talk(write_module(ECHO), *(encoded(question(seq)) for seq in (1, 2, 3, 4)))
    assert said.answers == [
        answer(1, output_data={"echo": {"seq": 1}}),
        answer(2, status="refused", error_detail="not the second"),
        answer(3, status="error", error_detail="ValueError: not the third"),
        answer(4, output_data={"echo": {"seq": 4}}),
    ]
    assert said.stderr.count("Traceback") == 1
    assert said.code == 0


def test_the_end_of_input_is_the_end(write_module: WriteModule) -> None:
    said = talk(write_module(ECHO))
    assert (said.answers, said.stderr, said.code) == ([], "", 0)


def test_a_last_line_without_a_line_feed_is_a_line(write_module: WriteModule) -> None:
    with stdio_process(write_module(ECHO)) as process:
        stdout, _ = process.communicate(encoded(question()), timeout=PATIENCE_SECONDS)
    assert stdout.count(b"\n") == 1
    assert b'"success"' in stdout


def test_nothing_that_a_construct_prints_gets_between_the_answers(
    write_module: WriteModule,
) -> None:
    said = talk(write_module(NOISY), *(encoded(question(seq)) for seq in (1, 2)))
    assert said.answers == [answer(seq, output_data={"seen": seq}) for seq in (1, 2)]
    noise = ["print", "the first stdout", "descriptor", "shell", "child", "C"]
    assert said.stderr.splitlines() == [f"noise: {kind}" for kind in ["import", *noise, *noise]]


def test_a_construct_cannot_read_the_questions(write_module: WriteModule) -> None:
    empty = {"own": "", "child": ""}
    with stdio_process(write_module(CURIOUS)) as process:
        for seq in (1, 2):
            assert asked_in_time(process, seq) == answer(seq, output_data=empty)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "expected JSON, got something else at line 1 column 1: Expecting value"),
        (b"{", "expected JSON, got something else at line 1 column 2: Expecting property name"),
        (b"[1]", "expected a JSON object, got array"),
        (b'{"a": NaN}', "expected finite numbers, got NaN"),
        (b'{"a": 1, "a": 2}', "expected unique keys, got 'a' twice"),
        (b"\xff", "expected UTF-8, got an invalid byte at offset 0"),
        (b"[" * 100, "expected at most 64 levels of nesting, got more"),
        (b"{}", "expected input_data as an object, got null"),
    ],
)
def test_a_line_that_is_no_envelope_gets_an_error_and_the_next_its_answer(
    write_module: WriteModule, line: bytes, reason: str
) -> None:
    said = talk(write_module(ECHO), line, encoded(question()), options=["--id", "pilot"])
    error, success = said.answers
    detail = error.pop("error_detail")
    assert detail.startswith(reason)
    assert error == {
        "invocation_id": "",
        "construct_id": "pilot",
        "construct_version": VERSION,
        "status": "error",
        "output_data": None,
    }
    assert success == answer(output_data={"echo": {"seq": 1}})


def test_a_huge_line_is_refused_whole_and_the_next_is_answered(write_module: WriteModule) -> None:
    huge = encoded(question(input_data={"text": "x" * (32 * 1024 * 1024 + 100_000)}))
    said = talk(write_module(ECHO), huge, encoded(question()))
    details = [document.get("error_detail") for document in said.answers]
    assert details == ["expected at most 33554432 bytes, got 33554433", None]


def test_a_line_of_exactly_the_limit_is_read(write_module: WriteModule) -> None:
    measure = "def answer(input_data): return {'n': len(input_data['text'])}"
    room = 32 * 1024 * 1024 - len(encoded(question(input_data={"text": ""})))
    said = talk(write_module(measure), encoded(question(input_data={"text": "x" * room})))
    assert said.answers == [answer(output_data={"n": room})]


def test_a_call_of_exit_ends_the_process_without_an_answer(write_module: WriteModule) -> None:
    said = talk(
        write_module("import sys\ndef answer(_): sys.exit(7)"),
        encoded(question(1)),
        encoded(question(2)),
    )
    assert (said.answers, said.code) == ([], 7)


def test_a_runner_that_has_gone_is_no_reason_for_a_traceback(write_module: WriteModule) -> None:
    with stdio_process(write_module(ECHO)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(encoded(question()) + b"\n")
        process.stdin.close()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["answer", "answer_later"])
def test_a_signal_ends_a_call_at_once_and_exit_handlers_run(
    write_module: WriteModule, tmp_path: Path, name: str, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with subprocess.Popen(
        [*KIT, "--stdio", "--folder", str(write_module(SLOW)), f"pilot:{name}"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(encoded(question(input_data={"gate": str(gate)})) + b"\n")
        process.stdin.flush()
        with gate.open("wb"):
            # The call is under way: a gate opens when both ends are there.
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (stdout, stderr, process.returncode) == (b"", b"tidied up\n", 128 + number)


def test_a_signal_ends_an_idle_server(write_module: WriteModule) -> None:
    with stdio_process(write_module(ECHO)) as process:
        assert asked_in_time(process, 1) == answer(output_data={"echo": {"seq": 1}})
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (stdout, stderr, process.returncode) == (b"", b"", 128 + signal.SIGTERM)


def test_an_author_can_serve_from_a_program_of_their_own(write_module: WriteModule) -> None:
    served = ECHO + "\n\nif __name__ == '__main__':\n    serve_stdio(answer)\n"
    folder = write_module(served.replace("import Refusal", "import serve_stdio, Refusal"))
    ended = subprocess.run(
        [KIT[0], folder / "pilot.py"],
        input=encoded(question()) + b"\n",
        env=environment(),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (ended.stdout.count(b'"status":"success"'), ended.stderr) == (1, b"")


def test_prints_come_with_the_call_that_made_them(write_module: WriteModule) -> None:
    with stdio_process(write_module("def answer(_):\n    print('now')\n    return {}")) as process:
        asked_in_time(process, 1)
        assert process.stderr is not None
        readable, _, _ = select.select([process.stderr], [], [], 0)
        assert readable, "the answer has come, the print has not"
        assert process.stderr.readline() == b"now\n"
