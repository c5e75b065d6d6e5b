"""Who belongs to a construct's process, and how the whole family is ended (Linux).

A construct's process adopts the orphans below it while it lives; when it has died they come
to the runner, which is a child subreaper for that (docs/contract/construct.md §2). The
runner then knows them by the mark that the launcher set. Elsewhere than on Linux only the
process group is ended.
"""

import asyncio
import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from theatre.oracles.isolation.kernel_rules import close_memory

# Waiting for file descriptors on the event loop, and a bounded reader of complaints.


CHUNK_BYTES = 64 * 1024


async def ready(*, readers: Sequence[int] = (), writers: Sequence[int] = ()) -> None:
    """Return as soon as one of `readers` can be read or one of `writers` written.

    No other waiter may use the same descriptor in the same direction.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    for descriptor in readers:
        loop.add_reader(descriptor, wake)
    for descriptor in writers:
        loop.add_writer(descriptor, wake)
    try:
        await woken
    finally:
        for descriptor in readers:
            loop.remove_reader(descriptor)
        for descriptor in writers:
            loop.remove_writer(descriptor)


def is_ready(descriptor: int) -> bool:
    """Return whether `descriptor` can be read now, without waiting."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


def read_now(descriptor: int) -> bytes | None:
    """Return what a non-blocking `descriptor` holds, at most 64 KiB.

    None where it holds nothing yet, and empty bytes at its end.
    """
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None


class ComplaintPipe:
    """Drains a construct's stderr while it lives and keeps the last `limit` bytes.

    Drained all the time, so that a construct is never stopped by its own complaints.
    """

    def __init__(self, descriptor: int, *, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._tail = bytearray()
        self._cut = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._drain)

    def take(self) -> str:
        """Return what came since the last time, with a note of what was cut in front."""
        self._drain()
        note = f"[{self._cut} bytes cut]\n" if self._cut else ""
        text = note + self._tail.decode("utf-8", "replace")
        self._tail.clear()
        self._cut = 0
        return text

    def stop(self) -> None:
        """Drain no longer; the descriptor may be closed after that."""
        self._loop.remove_reader(self._descriptor)

    def _drain(self) -> None:
        chunk = read_now(self._descriptor)
        if chunk == b"":
            self.stop()
        elif chunk is not None:
            self._tail += chunk
            excess = max(0, len(self._tail) - self._limit)
            del self._tail[:excess]
            self._cut += excess


_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 2.0
_PROC = Path("/proc")
TELLS_WHO_SLEEPS = (_PROC / "self" / "schedstat").exists()
# Fields of /proc/PID/stat, counted from the state on; PF_EXITING of the kernel is a flag.
_PARENT, _SESSION, _FLAGS, _EXITING = 1, 3, 6, 0x4

# One set for one operating-system process, because adoption and children are a matter of the
# whole process, whichever adapter or thread started them.
_leaders: set[int] = set()
_dead_leaders: set[int] = set()
_registration = threading.Lock()


def start_leader(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Call `start` and register its process as a construct's own, so that no sweep ends it."""
    close_memory()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with _registration:
        leader = start()
        _leaders.add(leader.pid)
    return leader


def forget_leader(pid: int) -> None:
    """Take `pid` off the register. Call it when the process has been reaped."""
    with _registration:
        _leaders.discard(pid)
        _dead_leaders.add(pid)


def end_leader(leader: subprocess.Popen[bytes]) -> int:
    """Wait for a leader to end, and for what it leaves; return its exit code. Blocks.

    Bubblewrap ends before the first process of its namespaces, which then comes to the runner.
    """
    exit_code = leader.wait()
    forget_leader(leader.pid)
    for pid in _strays() if sys.platform == "linux" else ():
        fields = _stat_fields(pid)
        if fields is not None and int(fields[_SESSION]) == leader.pid and _kill(pid):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return exit_code


def kill_group(leader: int) -> None:
    """Kill a construct's process and its process group; what left the group becomes a stray.

    The leader must not have been reaped yet: until then no other process can have its id.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


async def end_strays() -> None:
    """Kill and reap what dead constructs left to the runner; gives up after two seconds.

    A killed stray leaves its own children to the runner: so until there are none.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while strays := [pid for pid in _strays() if _kill(pid)]:
                for pid in strays:
                    await _reap(pid)
            _dead_leaders.clear()


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable once `pid` has ended; None where there is none."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def cpu_seconds_used(pid: int) -> float:
    """Return the CPU time of a process so far, in seconds, as RLIMIT_CPU counts it.

    That is by the ticks at which it was running. On a busy machine they come to a tenth more than
    the exact time, which is in /proc, and over many calls that tenth exceeds any limit.
    Raises ProcessLookupError where it is gone.
    """
    # CPUCLOCK_PROF of a process: the number of the clock is made of the pid (clock_gettime(2)).
    try:
        return time.clock_gettime(~pid << 3)
    except OSError as error:
        raise ProcessLookupError(f"expected process {pid}, got none") from error


def is_dying(pid: int) -> bool:
    """Return whether the system is about to end `pid`, or has; False where it does not tell.

    That is known before its descriptors are closed; its exit code only after its last thread.
    """
    if sys.platform != "linux":
        return False
    fields = _stat_fields(pid)
    return fields is None or bool(int(fields[_FLAGS]) & _EXITING)


def time_when_asleep(pid: int) -> int | None:
    """Return the nanoseconds that a process has run, where all of its threads sleep now.

    None where one runs or is about to, where the process is gone, and where the system does not
    tell.
    """
    total = 0
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            state = (thread / "stat").read_bytes().rpartition(b") ")[2][:1]
            if state != b"S":
                return None
            total += int((thread / "schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total


def _strays() -> list[int]:
    """Return children of the runner that descend from a construct whose process is dead."""
    found = []
    with _registration:
        for pid in children_of(os.getpid()):
            fields = _stat_fields(pid)
            # The first process in namespaces bears no mark, but has its dead leader's session.
            leads_back = fields is not None and int(fields[_SESSION]) in _dead_leaders
            if pid not in _leaders and (leads_back or _bears_mark(pid)):
                found.append(pid)
    return found


def _bears_mark(pid: int) -> bool:
    _, own = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    except (ProcessLookupError, PermissionError):
        return False
    return hard != resource.RLIM_INFINITY and (own == resource.RLIM_INFINITY or hard < own)


def first_child_of(parent: int) -> int | None:
    """Return a child of a process without threads; None where there is none."""
    with contextlib.suppress(OSError):
        known = (_PROC / str(parent) / "task" / str(parent) / "children").read_text().split()
        return int(known[0]) if known else None
    # Not every kernel is built to list them.
    return next(iter(children_of(parent)), None)


def children_of(parent: int) -> list[int]:
    """Return the processes whose parent is `parent`."""
    pids = [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 - as below
    stats = {pid: _stat_fields(pid) for pid in pids}
    return [
        pid
        for pid, fields in stats.items()
        if fields is not None and fields[_PARENT] == str(parent)
    ]


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on; None where the process is gone."""
    try:
        # Not as a Path: it is asked of every process of the machine whenever a construct ends.
        with open(f"{_PROC}/{pid}/stat", "rb") as file:  # noqa: PTH123 - see above
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may itself hold spaces and brackets.
    return stat.rpartition(b")")[2].decode("ascii").split()


def _kill(pid: int) -> bool:
    """Kill `pid`; say whether it was there to be killed (a zombie is) and ours to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def _reap(pid: int) -> None:
    """Wait until a child of the runner is dead, and take its exit code off the system."""
    pidfd = open_pidfd(pid)
    if pidfd is None:
        await asyncio.sleep(0)
    else:
        try:
            await ready(readers=[pidfd])
        finally:
            os.close(pidfd)
    _take_exit_code(pid)


def _take_exit_code(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
