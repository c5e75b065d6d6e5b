"""What isolation holds here and now: a program is started under it and tries to get out.

Whatever means was found to work, what is recorded is what this found (ADR 0178).
"""

import contextlib
import json
import os
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from theatre.engine.oracle_contract import NOT_ISOLATED, IsolatedBy, Isolation
from theatre.engine.schema_registry import resource_root
from theatre.oracles import process_tree
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.allowed_paths import allowed_paths
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits, construct_environment, start_limited

_THIEF = Path(__file__).with_name("thief.py")
_PATIENCE_SECONDS = 30.0
_VERSION = "0" * 64
_LOOPBACK = "127.0.0.1"
_READABLE_BY_ALL = 0o644
_ROOM_FOR_NAME = 70
# Of /proc/PID/stat, counted from the state on: when the process started.
_STARTED = 19


class _Sockets(NamedTuple):
    """Services of this process, as a database or another user's would be."""

    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    datagram: socket.socket
    abstract: socket.socket

    def addresses(self) -> dict[str, Any]:
        return {
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "unix": self.unix.getsockname(),
            "datagram": self.datagram.getsockname(),
            "abstract": self.abstract.getsockname()[1:].decode(),
        }

    def received_any(self) -> bool:
        """Return whether anything arrived, whatever the program says of it."""
        every = [self.tcp, self.udp, self.unix, self.datagram, self.abstract]
        ready, _, _ = select.select(every, [], [], 0)
        return bool(ready)


def probe_isolation(closed: Sequence[Path], reach: Reach) -> Isolation:
    """Return what a program with this `reach` can reach now. Blocks for a start of Python.

    `closed` are files and folders with answers in them: the store, the data. What could not be
    tried does not hold.
    """
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="echelon-construct-")))
        files = [stack.enter_context(_bait_in(path)) for path in closed]
        sockets = stack.enter_context(_listening())
        order = {
            "files": [*map(str, files), *_own_ground_truth(reach)],
            "folders": [str(path.parent) for path in files],
            "runner": os.getpid(),
            **sockets.addresses(),
        }
        try:
            means, own_pid, said = _ask_thief(order, work, reach)
        except (ConstructUnreachableError, ValueError, OSError):
            return NOT_ISOLATED
        found = Isolation(
            files=not said["files"],
            processes=not _is_reached(said, own_pid),
            network=not said["network"] and not sockets.received_any(),
            by=means,
        )
    # A means that holds nothing has no claim to its name.
    return found if found.holds else replace(found, by="none")


def _ask_thief(
    order: dict[str, Any], work: Path, reach: Reach
) -> tuple[IsolatedBy, int, dict[str, Any]]:
    """Run the thief; return the means, its pid as seen from here, and what it says.

    Raises ValueError where that is not what a thief says.
    """
    started = start_limited(
        [sys.executable, "-I", "-S", str(_THIEF)],
        folder=str(work),
        environment=construct_environment(_VERSION),
        limits=ProcessLimits(),
        reach=reach._replace(reading=(_THIEF,)),
    )
    process = started.process
    too_late = threading.Timer(_PATIENCE_SECONDS, process_tree.kill_group, [process.pid])
    too_late.start()
    try:
        # Comes to its end when the program runs.
        problem = os.read(started.status, 1)
        own_pid = started.program_pid()
        if not problem:
            started.stdin.write(json.dumps(order).encode())
        started.stdin.close()
        said: dict[str, Any] = json.loads(started.stdout.read())
    finally:
        # Its stdin is closed: it ends by itself, and with it the namespaces that it was in.
        process_tree.end_leader(process)
        too_late.cancel()
        started.close_pipes()
    return started.means.value, own_pid, said


def _is_reached(said: dict[str, Any], own_pid: int) -> bool:
    """Return whether this process was reached, and not another of its number in namespaces."""
    seen, own = said["processes"]["stat"], Path("/proc/self/stat")
    is_this = seen is None or not own.exists() or _start_of(seen) == _start_of(own.read_text())
    opened = bool(said["processes"]["opened"]) and is_this
    return opened or (said["processes"]["signalled"] and said["pid"] == own_pid)


def _start_of(stat: str) -> str:
    return stat.rpartition(")")[2].split()[_STARTED]


def _own_ground_truth(reach: Reach) -> list[str]:
    """Return a file of each copy of this project's own ground truth that is installed here."""
    places = (resource_root() / "fixtures", *allowed_paths(reach.programs, []).hidden)
    files = (next(place.rglob("*.jsonl"), None) for place in places)
    return [str(file) for file in files if file is not None]


@contextlib.contextmanager
def _bait_in(path: Path) -> Iterator[Path]:
    """Yield a file with answers: `path`, or one made in that folder for as long as it lasts."""
    while not path.exists():
        path = path.parent
    if not (path.is_dir() and os.access(path, os.W_OK)):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=path, prefix=".echelon-canary-") as file:
        Path(file.name).chmod(_READABLE_BY_ALL)
        yield Path(file.name)


@contextlib.contextmanager
def _listening() -> Iterator[_Sockets]:
    with contextlib.ExitStack() as stack:
        # A socket's path holds 107 bytes: a deep TMPDIR leaves no room for one.
        shallow = "/tmp" if len(tempfile.gettempdir()) > _ROOM_FOR_NAME else None  # noqa: S108
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="echelon-canary-", dir=shallow)
        )
        tcp, unix, abstract = (
            stack.enter_context(socket.socket(family))
            for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX)
        )
        udp, datagram = (
            stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            for family in (socket.AF_INET, socket.AF_UNIX)
        )
        tcp.bind((_LOOPBACK, 0))
        udp.bind((_LOOPBACK, 0))
        unix.bind(f"{folder}/socket")
        datagram.bind(f"{folder}/datagram")
        abstract.bind("\0" + Path(folder).name)
        for one in (tcp, unix, abstract):
            one.listen()
        yield _Sockets(tcp=tcp, udp=udp, unix=unix, datagram=datagram, abstract=abstract)
