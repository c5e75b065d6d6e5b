"""Becomes a construct: takes its limits and its isolation upon itself, then turns into its program.

`theatre.oracles.limited_process` runs this file as `python -I -S launcher.py ORDER_FD`, where a
marshalled dict tells what to do (`order` there). A program of its own instead of a `preexec_fn`,
which may deadlock in a process with threads. It imports nothing of the package, and what it does
was decided elsewhere. A failure is written to the descriptor `status`, which closes by itself
when the program starts. `typing` and `signal` would take longer to load than all that it does.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_CAPBSET_DROP = 22, 2, 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_FIRST_DESCRIPTOR_PASSED = 3
_OUT_OF_THE_WAY = 10
_HIGHEST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522
_CPU_CEILING_SECONDS = 10**9
_EXIT_NOT_STARTED = 127
# The same on Linux and macOS.
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25

_libc = ctypes.CDLL(None, use_errno=True)


def main(order_fd: int) -> None:
    """Set limits and isolation and execute the program; returns only by ending the process."""
    with open(order_fd, "rb") as file:
        order: dict[str, Any] = marshal.load(file)  # noqa: S302 - written by our own parent
    status = _move_descriptor(order["status"])
    try:
        _take_descriptors(order)
        if sys.platform == "linux":
            if order["runner"]:
                _tie_to(order["runner"])
            else:
                # The first process of the namespaces keeps the runner's session.
                os.setsid()
            _mark_family()
            # Elsewhere RLIMIT_AS is refused or not enforced.
            _lower(resource.RLIMIT_AS, order["memory"])
        _lower(resource.RLIMIT_NOFILE, order["open_files"])
        # A core dump would write the memory of a construct, and of its inputs, to the disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Python ignores these two, and what is ignored stays ignored in the program.
        for ignored in (_SIGPIPE, _SIGXFSZ):
            _libc.signal(ignored, None)
        _isolate(order)
        # Bubblewrap's own.
        os.environ.pop("PWD", None)
        argv = order["argv"]
        os.execvp(argv[0], argv)  # noqa: S606 - an argv on purpose: never a shell
    except (OSError, ValueError) as error:
        os.write(status, str(error).encode("utf-8", "replace"))
        sys.exit(_EXIT_NOT_STARTED)


def _move_descriptor(descriptor: int) -> int:
    """Return a copy out of the way of those that the program gets; it closes with the start."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    os.close(descriptor)
    return copy


def _take_descriptors(order: dict[str, Any]) -> None:
    """Put stdin, stdout and the listening socket where the program looks for them."""
    wanted = {0: order["stdin"], 1: order["stdout"], _FIRST_DESCRIPTOR_PASSED: order["listener"]}
    held = {place: _move_descriptor(one) for place, one in wanted.items() if one is not None}
    for place, descriptor in held.items():
        os.dup2(descriptor, place, inheritable=True)
    if _FIRST_DESCRIPTOR_PASSED in held:
        # As systemd does, and named for it: sd_listen_fds(3).
        os.environ["LISTEN_FDS"] = "1"
        os.environ["LISTEN_PID"] = str(os.getpid())


def _tie_to(runner_pid: int) -> None:
    """End with the runner, and keep orphaned descendants below this process while it lives."""
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The runner ended before prctl took effect: no signal will come any more.
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


def _isolate(order: dict[str, Any]) -> None:
    """Give up what was ordered; the filter comes last, since it refuses what the others need."""
    if order["user"] is not None:
        # Groups and group id first: after setresuid there is no right left to change them.
        os.setgroups([])
        os.setresgid(*3 * (order["user"],))
        os.setresuid(*3 * (order["user"],))
    if order["gives_up_capabilities"]:
        # Root's come back with every program it executes: all in this set, and all inheritable.
        for capability in range(_HIGHEST_CAPABILITY + 1):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        _call("capset", _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)))
    if order["rules"] is not None or order["filter"] is not None:
        _call("prctl", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if order["rules"] is not None:
        _restrict(*order["rules"])
    if order["filter"] is not None:
        _filter_calls(*order["filter"])


def _restrict(handled: tuple[int, ...], allowed: tuple[tuple[str, int], ...]) -> None:
    """Let this process, and all that it starts, do what these Landlock rules allow."""
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = _call("landlock", _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path, rights in allowed:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            # What is not there, or out of reach anyway, needs no rule.
            continue
        rule = struct.pack("=Qi", rights, place)
        _call(path, _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
        os.close(place)
    _call("landlock", _libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _filter_calls(instructions: bytes, own_pid_at: tuple[int, ...]) -> None:
    program = bytearray(instructions)
    for place in own_pid_at:
        struct.pack_into("=I", program, place, os.getpid())
    held = ctypes.create_string_buffer(bytes(program), len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    _call("seccomp", _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0))


def _call(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]))
