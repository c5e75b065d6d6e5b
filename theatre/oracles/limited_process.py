"""Starting a program under limits and in a scrubbed environment; CPU time call by call."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from theatre.oracles import process_tree
from theatre.oracles.errors import ConstructUnreachableError

_LAUNCHER = Path(__file__).with_name("launcher.py")
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What a construct's process may use. None leaves the runner's own limit as it is.

    `memory_mb` bounds the address space in MiB, for each of its processes; `cpu_seconds` the
    CPU time of one call (both on Linux); `open_files` the descriptors open at a time.
    """

    memory_mb: int = 2048
    cpu_seconds: int | None = None
    open_files: int | None = None


def construct_environment(version: str) -> dict[str, str]:
    """Return all that a construct sees of the environment, beside HOME and TMPDIR."""
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


def start_limited(
    argv: Sequence[str], *, folder: str, environment: Mapping[str, str], limits: ProcessLimits
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the launcher of `argv` with `folder` as working folder, HOME and TMPDIR.

    Returns the process, the leader of a session of its own, and a descriptor on which the
    launcher says why the program could not be executed; it comes to its end without a word
    when the program runs. Raises ConstructUnreachableError where the system starts nothing.
    """
    status, status_of_child = os.pipe()
    command = [sys.executable, "-I", "-S", str(_LAUNCHER), str(status_of_child), str(os.getpid())]
    command += [str(limits.memory_mb * _MEBIBYTE), str(limits.open_files or 0), *argv]
    try:
        process = process_tree.start_leader(
            lambda: subprocess.Popen(  # noqa: S603 - an argv of the operator, never a shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=folder,
                env={**environment, "HOME": folder, "TMPDIR": folder},
                pass_fds=[status_of_child],
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        os.close(status)
        raise ConstructUnreachableError(
            f"expected to start {list(argv)!r:.300}, got: {error}"
        ) from error
    finally:
        os.close(status_of_child)
    return process, status


def allow_cpu_for_one_call(pid: int, limits: ProcessLimits) -> None:
    """Raise the soft CPU limit to what the process has used, and one call more.

    The kernel counts whole seconds, so a call may use up to one second more than its limit.
    """
    if limits.cpu_seconds is None or sys.platform != "linux":
        return
    # A process that has just ended, or became another user's, shows by its answer.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
        soft = math.ceil(process_tree.cpu_seconds_used(pid) + limits.cpu_seconds)
        resource.prlimit(pid, resource.RLIMIT_CPU, (min(soft, hard), hard))


def describe_exit(exit_code: int | None, limits: ProcessLimits) -> str:
    """Say how a process under `limits` ended; `exit_code` as in `subprocess`."""
    if exit_code is None:
        return "no exit code"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    number = -exit_code
    if number == signal.SIGXCPU and limits.cpu_seconds is not None:
        return f"SIGXCPU (it used more than {limits.cpu_seconds} s of CPU time in one call)"
    # Most real-time signals have no name.
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
