"""Where constructs of tests report each call, and wait until it may be answered.

They are isolated: neither a file of a test nor its process is within their reach. With
`network = true` they reach this, a service of the test's process.
"""

import contextlib
import json
import os
import signal
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

_ASKING = '''
import json
import os
import socket
import time


def report(**call):
    """Report a call to the test; return, when it may be answered, whether it should be."""
    call |= {{"stage": {stage}, "at": time.time(), "cwd": os.getcwd()}}
    with socket.create_connection(("127.0.0.1", {port})) as door:
        door.sendall(json.dumps(call).encode() + b"\\n")
        return door.recv(1) == b"."
'''
_FIRST_OF_STAT = 1


@dataclass(slots=True)
class ConstructDoor:
    """What calls came to the constructs of one stage, and which of them wait."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    doomed: set[str] = field(default_factory=set)
    held_call: int | None = None
    """The number of the call that is never answered."""
    at_each_call: Callable[[], object] = lambda: None
    refuses: Callable[[dict[str, Any]], bool] = lambda _: False
    """Which calls the construct is to answer badly."""
    _gates: dict[str, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def let_through(self, gate: str) -> None:
        """Let the calls through that stand before a gate; those that come later wait."""
        with self._lock:
            waiting = self._gates.pop(gate, None)
        if waiting is not None:
            waiting.set()

    def note(self, call: dict[str, Any]) -> bool:
        """Note a call; return whether it is the one that is never answered."""
        with self._lock:
            self.calls.append(call)
            is_held = len(self.calls) == self.held_call
            self.at_each_call()
        return is_held

    def wait_for_leave(self, call: dict[str, Any], *, is_held: bool) -> None:
        """Return when a call may be answered; kill who made it if that is asked."""
        do = call.get("do")
        is_doomed = do == "kill the doomed" and call["theatre"] in self.doomed
        if do == "kill the doomed":
            do = "second gate" if is_doomed else "gate"
        if is_held or do in {"gate", "second gate"}:
            self._wait_at("never" if is_held else str(do))
        if is_doomed or do == "kill":
            os.kill(_runner_of(call["cwd"]), signal.SIGKILL)

    def _wait_at(self, gate: str) -> None:
        with self._lock:
            waiting = self._gates.setdefault(gate, threading.Event())
        waiting.wait()


def door_of(stage: Path) -> ConstructDoor:
    """Return the door of a stage, the same one each time."""
    return _server().doors[str(stage)]


def report_source(stage: str) -> str:
    """Return the source of `report`, for a construct; `stage` is Python that names its folder."""
    return _ASKING.format(stage=stage, port=_server().server_address[1])


class _Handler(StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        line = self.rfile.readline()
        # Who was killed in the middle of a report has made none.
        call = json.loads(line) if line.endswith(b"\n") else None
        is_held = call is not None and self.server.doors[call["stage"]].note(call)
        self.server.count_noted()
        if call is None:
            return
        door = self.server.doors[call["stage"]]
        door.wait_for_leave(call, is_held=is_held)
        with contextlib.suppress(OSError):
            self.wfile.write(b"!" if door.refuses(call) else b".")


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.doors: dict[str, ConstructDoor] = defaultdict(ConstructDoor)
        self.begun, self._noted = 0, 0
        self._change = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as socketserver has it
        self.begun += 1
        super().process_request(request, client_address)

    def count_noted(self) -> None:
        """Say that a connection was read to the end of its report."""
        with self._change:
            self._noted += 1
            self._change.notify_all()

    def wait_until_noted(self, connections: int) -> None:
        """Return once so many connections were read."""
        with self._change:
            self._change.wait_for(lambda: self._noted >= connections)


def drain_reports() -> None:
    """Return once all reports that were sent are noted: a killed construct's last is on its way.

    Connections are taken in their order: who is taken after them finds them begun.
    """
    server = _server()
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as last:
        last.shutdown(socket.SHUT_WR)
        last.recv(1)
    server.wait_until_noted(server.begun)


@cache
def _server() -> _Server:
    """Return the one of this process, which ends with it."""
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _runner_of(folder: str) -> int:
    """Return who started the construct that works in a folder: the parent of its session."""
    leader = os.getsid(next(_processes_in(folder)))
    return int(Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[_FIRST_OF_STAT])


def _processes_in(folder: str) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == Path(folder):
                yield int(process.name)
