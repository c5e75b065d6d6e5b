"""seccomp: a filter of system calls, for what namespaces and Landlock leave open.

A deny-list on top of an allow-list of paths: calls that reach another process, the kernel or the
network are refused with EPERM, and those that a program does without as ENOSYS.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_LOAD_WORD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32_CALLS = 0x40000000
_MSG_FASTOPEN = 0x20000000
_CLONE_NEWUSER = 0x10000000
_INTERNET = (2, 10, 16)
"""AF_INET and AF_INET6, and AF_NETLINK, by which names are looked up."""
_IS_DATAGRAM = 0b10
"""Set in SOCK_DGRAM and SOCK_RAW, not in SOCK_STREAM and SOCK_SEQPACKET."""
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Architecture:
    """What AUDIT_ARCH calls it, and the numbers of its calls where they differ from the others."""

    audit: int
    calls: Mapping[str, int]


# From 424 on every architecture has the same numbers.
_COMMON = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsmount": 432,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
}
_X86_64 = _Architecture(
    audit=0xC000003E,
    calls=_COMMON
    | {
        "socket": 41,
        "socketpair": 53,
        "connect": 42,
        "sendto": 44,
        "sendmsg": 46,
        "bind": 49,
        "sendmmsg": 307,
        "clone": 56,
        "kill": 62,
        "tkill": 200,
        "tgkill": 234,
        "rt_sigqueueinfo": 129,
        "rt_tgsigqueueinfo": 297,
        "open": 2,
        "openat": 257,
        "truncate": 76,
        "ptrace": 101,
        "prlimit64": 302,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "open_by_handle_at": 304,
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "chroot": 161,
        "unshare": 272,
        "setns": 308,
        "reboot": 169,
        "kexec_load": 246,
        "init_module": 175,
        "finit_module": 313,
        "delete_module": 176,
        "swapon": 167,
        "acct": 163,
        "syslog": 103,
        "quotactl": 179,
    },
)
_AARCH64 = _Architecture(
    audit=0xC00000B7,
    calls=_COMMON
    | {
        "socket": 198,
        "socketpair": 199,
        "connect": 203,
        "sendto": 206,
        "sendmsg": 211,
        "bind": 200,
        "sendmmsg": 269,
        "clone": 220,
        "kill": 129,
        "tkill": 130,
        "tgkill": 131,
        "rt_sigqueueinfo": 138,
        "rt_tgsigqueueinfo": 240,
        "openat": 56,
        "truncate": 45,
        "ptrace": 117,
        "prlimit64": 261,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "open_by_handle_at": 265,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "chroot": 51,
        "unshare": 97,
        "setns": 268,
        "reboot": 142,
        "kexec_load": 104,
        "init_module": 105,
        "finit_module": 273,
        "delete_module": 106,
        "swapon": 224,
        "acct": 89,
        "syslog": 116,
        "quotactl": 60,
    },
)
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_OTHER_PROCESSES = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    *("pidfd_send_signal", "perf_event_open", "userfaultfd"),
)
_KERNEL = (
    *("add_key", "request_key", "keyctl", "bpf", "open_by_handle_at", "mount", "umount2"),
    *("pivot_root", "chroot", "unshare", "setns", "reboot", "kexec_load", "init_module"),
    *("finit_module", "delete_module", "swapon", "acct", "syslog", "quotactl"),
    *("open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr"),
)
# io_uring would make calls that no filter sees, clone3 has its flags behind a pointer.
_DONE_WITHOUT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
_NETWORK = ("socket", "connect", "bind")
_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""Call → the argument with its flags: with MSG_FASTOPEN each of them connects."""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

# Stands for a pid that only the launcher knows; none is so high.
_OWN_PID = 0x7FFFFFFF

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Filter:
    """Instructions as the kernel takes them, and where in them the program's own pid belongs."""

    instructions: bytes
    own_pid_at: tuple[int, ...]


def is_known_machine() -> bool:
    """Return whether a filter can be written for this machine's architecture."""
    return platform.machine() in _MACHINES


def filter_for(*, network: bool, signals: bool, truncation: bool) -> Filter:
    """Return the filter of a program; `network` leaves all but Unix sockets open.

    `signals` and `truncation` close here what nothing else does: then a program can signal
    itself alone, and can cut no file by its name.
    """
    machine = _MACHINES[platform.machine()]
    number = machine.calls
    program = [
        (_LOAD_WORD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine.audit),
        _refuse(_EPERM),
        (_LOAD_WORD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32_CALLS),
        _refuse(_EPERM),
    ]
    program += _refusals(number, (*_OTHER_PROCESSES, *_KERNEL), _EPERM)
    program += _refusals(number, _DONE_WITHOUT, _ENOSYS)
    program += _flagged(number["clone"], 0, _CLONE_NEWUSER)
    program += _only(number["prlimit64"], 0, _OWN_PID)
    # A pair of datagram sockets can send to any path-named one on the machine.
    program += _flagged(number["socketpair"], 1, _IS_DATAGRAM)
    if network:
        program += _only(number["socket"], *_INTERNET)
    else:
        program += _refusals(number, _NETWORK, _EPERM)
        for name, argument in _SENDING.items():
            program += _flagged(number[name], argument, _MSG_FASTOPEN)
    if truncation:
        program += _refusals(number, ("truncate",), _EPERM)
        program += _refusals(number, ("openat2",), _ENOSYS)
        for name, argument in (("open", 1), ("openat", 2)):
            if name in number:
                program += _cutting(number[name], argument)
    if signals:
        for name in _SIGNALS:
            program += _only(number[name], _OWN_PID)
    program.append((_RETURN, 0, 0, _ALLOW))
    own_pid = [
        place for place, one in enumerate(program) if (one[0], one[-1]) == (_IF_EQUAL, _OWN_PID)
    ]
    return Filter(
        b"".join(struct.pack("=HBBI", *one) for one in program),
        tuple(8 * place + 4 for place in own_pid),
    )


def _refuse(error: int) -> Instruction:
    return (_RETURN, 0, 0, _REFUSE | error)


def _refusals(number: Mapping[str, int], names: Iterable[str], error: int) -> list[Instruction]:
    return [one for name in names for one in ((_IF_EQUAL, 0, 1, number[name]), _refuse(error))]


def _flagged(number: int, argument: int, flag: int) -> list[Instruction]:
    """Refuse a call whose argument has `flag` set, and continue with the number loaded."""
    return [
        (_IF_EQUAL, 0, 5, number),
        (_LOAD_WORD, 0, 0, _ARGUMENTS + 8 * argument),
        (_AND, 0, 0, flag),
        (_IF_EQUAL, 1, 0, 0),
        _refuse(_EPERM),
        (_LOAD_WORD, 0, 0, _NUMBER),
    ]


def _cutting(number: int, argument: int) -> list[Instruction]:
    """Refuse to open for reading and to cut at once, which Landlock takes for reading."""
    return [
        (_IF_EQUAL, 0, 5, number),
        (_LOAD_WORD, 0, 0, _ARGUMENTS + 8 * argument),
        (_AND, 0, 0, _O_ACCMODE | _O_TRUNC),
        (_IF_EQUAL, 0, 1, _O_TRUNC),
        _refuse(_EPERM),
        (_LOAD_WORD, 0, 0, _NUMBER),
    ]


def _only(number: int, *allowed: int) -> list[Instruction]:
    """Refuse a call whose first argument is none of `allowed`."""
    left = len(allowed)
    return [
        (_IF_EQUAL, 0, left + 3, number),
        (_LOAD_WORD, 0, 0, _ARGUMENTS),
        *((_IF_EQUAL, left - place, 0, value) for place, value in enumerate(allowed)),
        _refuse(_EPERM),
        (_LOAD_WORD, 0, 0, _NUMBER),
    ]
