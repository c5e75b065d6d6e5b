"""Becomes a construct: takes its limits upon itself, then replaces itself with its program.

`theatre.oracles.child_process` runs this file as `python -I -S launcher.py STATUS_FD RUNNER_PID
MEMORY_BYTES OPEN_FILES PROGRAM ARGUMENT…` (0 = no such limit). A program of its own instead of
a `preexec_fn`, which may deadlock in a process with threads. It imports nothing of the package.
A failure is written to STATUS_FD, which closes by itself when the program starts.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CPU_CEILING_SECONDS = 10**9
_EXIT_NOT_STARTED = 127


def main(arguments: list[str]) -> None:
    """Set the limits and execute the program; returns only by ending the process."""
    status_fd, runner_pid, memory_bytes, open_files = (int(text) for text in arguments[:4])
    argv = arguments[4:]
    os.set_inheritable(status_fd, False)  # noqa: FBT003 - takes no keyword
    try:
        if sys.platform == "linux":
            _tie_to(runner_pid)
            _mark_family()
            # Elsewhere RLIMIT_AS is refused or not enforced.
            _lower(resource.RLIMIT_AS, memory_bytes)
        _lower(resource.RLIMIT_NOFILE, open_files)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Python ignores these two, and what is ignored stays ignored in the program.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606 - an argv on purpose: never a shell
    except (OSError, ValueError) as error:
        os.write(status_fd, str(error).encode("utf-8", "replace"))
        sys.exit(_EXIT_NOT_STARTED)


def _tie_to(runner_pid: int) -> None:
    """End with the runner, and keep orphaned descendants below this process while it lives."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != runner_pid:
        sys.exit(_EXIT_NOT_STARTED)


def _mark_family() -> None:
    """Lower the hard CPU limit, to a length no run reaches.

    Every descendant inherits it and none can raise it without privilege: by it
    `theatre.oracles.process_tree` knows the family, whatever session or environment it chose.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    ceiling = _CPU_CEILING_SECONDS if hard == resource.RLIM_INFINITY else hard - 1
    resource.setrlimit(resource.RLIMIT_CPU, (ceiling, ceiling))


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if value:
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


if __name__ == "__main__":
    main(sys.argv[1:])
