"""A gate that hangs is killed from another process, and the log says so."""

import io
import json
import os
import sys
from contextlib import closing

import pytest

from tests.theatre.axion.proposed import expected, mind, prepared, world
from theatre.axion.common.errors import FatalHangError, GateBrokenError
from theatre.axion.common.hashing import Document
from theatre.axion.harness.kernel_session import KernelSession
from theatre.axion.kernel.audit_log import verify_lines
from theatre.axion.kernel.child import Child
from theatre.axion.kernel.frames import MAX_FRAME, frame, length_of, read_frame
from theatre.axion.kernel.processes import P5_MODULE, GateClient, examine_in

# Each reads its question and then never answers: one computes for ever, one waits for ever.
BUSY = "import sys; sys.stdin.buffer.read(4)\nwhile True: pass"
STUCK = "import sys, threading; sys.stdin.buffer.read(4); threading.Event().wait()"


def events(log: io.BytesIO) -> list[str]:
    lines = log.getvalue().splitlines(keepends=True)
    verify_lines(lines)
    return [json.loads(line)["event"] for line in lines]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("program", [BUSY, STUCK])
def test_a_gate_that_hangs_is_killed_and_nothing_is_allowed(program: str) -> None:
    log = io.BytesIO()
    argv = [sys.executable, "-c", program]
    with closing(KernelSession(log, seed=b"0", watchdog_ms=50, gate_argv=argv)) as room:
        with pytest.raises(FatalHangError, match="expected a decision within 50 ms, got none"):
            room.decide(prepared().proposal, expected(mind(), world()))
        gate = room._gate  # noqa: SLF001 - whether its process is gone is the point
        assert isinstance(gate, GateClient)
        assert not is_running(gate._child.pid)  # noqa: SLF001 - the same
    assert events(log) == ["POLICY_DECISION", "FATAL_HANG"]
    last = json.loads(log.getvalue().splitlines()[-1])
    assert last["kernel_decision"] == {
        "verdict": "deny",
        "notes": "no answer within 50 ms: the gate's process was killed",
    }


@pytest.mark.parametrize(
    "program", ["pass", "import sys; sys.stdout.buffer.write(bytes([255] * 9)); sys.stdout.flush()"]
)
def test_a_gate_that_dies_or_answers_nonsense_allows_nothing(program: str) -> None:
    log = io.BytesIO()
    argv = [sys.executable, "-c", program]
    with (
        closing(KernelSession(log, seed=b"0", watchdog_ms=60_000, gate_argv=argv)) as room,
        pytest.raises(GateBrokenError),
    ):
        room.decide(prepared().proposal, expected(mind(), world()))
    assert events(log) == ["POLICY_DECISION", "INTERNAL_ERROR"]


def test_the_probe_process_refuses_what_is_not_a_closed_document() -> None:
    with closing(Child(P5_MODULE)) as child:
        documents: list[Document] = [{}, {"env": {}}, {"protocol": "p5-mci@1"}]
        for document in documents:
            with pytest.raises(GateBrokenError, match="expected a closed P5 input"):
                examine_in(child, document)


def test_a_process_that_was_never_asked_is_closed_as_well() -> None:
    child = Child(P5_MODULE)
    child.kill()
    assert not is_running(child.pid)
    with pytest.raises(GateBrokenError):
        child.ask(b"{}")
    child.close()


def test_frames_end_where_they_say() -> None:
    assert read_frame(io.BytesIO(frame(b"abc"))) == b"abc"
    assert read_frame(io.BytesIO(b"")) is None
    for torn in (b"\0\0", b"\0\0\0\5abc"):
        with pytest.raises(GateBrokenError):
            read_frame(io.BytesIO(torn))
    with pytest.raises(GateBrokenError, match=f"at most {MAX_FRAME} bytes"):
        length_of(b"\xff\xff\xff\xff")
