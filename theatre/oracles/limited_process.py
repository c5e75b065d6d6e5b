"""Starting a program isolated, under limits and in a scrubbed environment; CPU time by calls."""

import contextlib
import marshal
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from theatre.oracles import process_tree
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.allowed_paths import LAUNCHER, search_path
from theatre.oracles.isolation.means import Isolator, Reach, plan_start

_MEBIBYTE = 1024 * 1024
_ROOM_FOR_TICKS = 1.5


class ProcessLimits(NamedTuple):
    """What a construct's process may use. None leaves the runner's own limit as it is.

    `memory_mb` bounds the address space in MiB, for each of its processes; `cpu_seconds` the
    CPU time of one call (both on Linux); `open_files` the descriptors open at a time.
    """

    memory_mb: int = 2048
    cpu_seconds: int | None = None
    open_files: int | None = None


def construct_environment(version: str) -> dict[str, str]:
    """Return all that a construct sees of the environment, except HOME and TMPDIR."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # Each thread's own heap of 64 MiB, and a thread pool's buffers, one for each core, would
        # not fit under an address-space limit.
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ECHELON_CONSTRUCT_VERSION": version,
    }


class StartedProcess(NamedTuple):
    """What was started, and this side's ends of its pipes.

    `status` says why the program could not be executed; it comes to its end without a word when
    the program runs.
    """

    process: subprocess.Popen[bytes]
    means: Isolator
    status: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def program_pid(self) -> int:
        """Return the pid of the program, as this process sees it, once it has been launched.

        Within namespaces it is a child of theirs, which is a child of what was started.
        """
        pid = self.process.pid
        if self.means is Isolator.NAMESPACES:
            for _ in range(2):
                pid = process_tree.first_child_of(pid) or pid
        return pid

    def close_pipes(self) -> None:
        """Let go of this side's ends."""
        os.close(self.status)
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


def start_limited(
    argv: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    limits: ProcessLimits,
    reach: Reach,
    listener: int | None = None,
) -> StartedProcess:
    """Start the launcher of `argv` with `folder` as working folder, HOME and TMPDIR.

    It is the leader of its own session, isolated by the best means that there is, and is
    given the listening socket `listener`, if there is one. Raises ConstructUnreachableError where
    the system starts nothing.
    """
    pipes = {name: os.pipe() for name in ("status", "stdin", "stdout")}
    status, stdin, stdout = pipes["status"], pipes["stdin"], pipes["stdout"]
    start = plan_start(argv, reach, Path(folder))
    is_isolated = start.means is not Isolator.NONE
    searched = {"PATH": search_path(reach.programs)} if is_isolated else {}
    order: dict[str, Any] = {
        "status": status[1],
        "stdin": stdin[0],
        "stdout": stdout[1],
        "listener": listener,
        # Namespaces end with their own first process, which ends with the runner.
        "runner": 0 if start.means is Isolator.NAMESPACES else os.getpid(),
        "memory": limits.memory_mb * _MEBIBYTE,
        "open_files": limits.open_files or 0,
        "argv": list(argv),
        "user": start.user,
        **start.orders,
    }
    passed = [one for one in (status[1], stdin[0], stdout[1], listener) if one is not None]
    try:
        with tempfile.TemporaryFile() as file:
            file.write(marshal.dumps(order))
            file.seek(0)
            passed.append(file.fileno())
            command = [*start.prefix, sys.executable, "-I", "-S", str(LAUNCHER), str(passed[-1])]
            process = process_tree.start_leader(
                lambda: subprocess.Popen(  # noqa: S603 - an argv of the operator, never a shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    cwd=folder,
                    # Not this process's environment: it may hold the operator's keys.
                    env={**environment, **searched, "HOME": folder, "TMPDIR": folder},
                    pass_fds=passed,
                    start_new_session=True,
                )
            )
    except (OSError, ValueError) as error:
        for end in (status[0], stdin[1], stdout[0]):
            os.close(end)
        raise ConstructUnreachableError(
            f"expected to start {list(argv)!r:.300}, got: {error}"
        ) from error
    finally:
        for end in (status[1], stdin[0], stdout[1]):
            os.close(end)
    return StartedProcess(
        process=process,
        means=start.means,
        status=status[0],
        stdin=os.fdopen(stdin[1], "wb", buffering=0),
        stdout=os.fdopen(stdout[0], "rb", buffering=0),
        stderr=cast("IO[bytes]", process.stderr),
    )


def allow_cpu_for_one_call(pid: int, limits: ProcessLimits) -> None:
    """Raise the soft CPU limit to what the process has used, and one call more.

    The kernel counts ticks, on a busy machine too many, and whole seconds: so a call that keeps
    to its limit has half of it again, and one that does not may use a second more than that.
    """
    if limits.cpu_seconds is None or sys.platform != "linux":
        return
    # A process that has just ended, or became another user's, shows by its answer.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
        used = process_tree.cpu_seconds_used(pid)
        soft = math.ceil(used + limits.cpu_seconds * _ROOM_FOR_TICKS)
        resource.prlimit(pid, resource.RLIMIT_CPU, (min(soft, hard), hard))


def describe_exit(exit_code: int | None, limits: ProcessLimits) -> str:
    """Return how a process under `limits` ended; `exit_code` as in `subprocess`."""
    if exit_code is None:
        return "no exit code"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    number = -exit_code
    if number == signal.SIGXCPU and limits.cpu_seconds is not None:
        return f"SIGXCPU (it used more than {limits.cpu_seconds} s of CPU time in one call)"
    # Most real-time signals have no name.
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
