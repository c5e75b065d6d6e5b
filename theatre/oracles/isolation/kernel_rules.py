"""What the kernel refuses: our memory to others, and to a program what Landlock and seccomp close.

The system calls are made by `launcher.py`; here is what it is given. Names and numbers of Landlock
as in the kernel's `landlock.h`: which of them count follows from the version of its interface
(ABI). The filter is for what namespaces and Landlock leave open, a deny-list on top of an
allow-list of paths: calls that reach another process, the kernel or the network are refused with
EPERM, and those that a program does without as ENOSYS.
"""

import ctypes
import platform
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

# The memory of a process.


_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Close memory and environment of this process to others of the same user, for good.

    Root's are not stopped. A child must do it again once it has executed a program. Closed to
    the process itself: /proc/self/environ and core dumps.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


# Landlock.


_CREATE_RULESET = 444
_VERSION_FLAG = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_UNIX_SOCKET, _SIGNAL = 1 << 0, 1 << 1
_FIRST_RIGHTS = (1 << 13) - 1

_READING = _EXECUTE | _READ_FILE | _READ_DIR
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

TRUNCATE_ABI, SIGNAL_ABI = 3, 6
"""From these on truncation and signals are closed; below them seccomp must close both."""


class Rules(NamedTuple):
    """What `landlock_create_ruleset` handles, and (path, rights) for each rule."""

    handled: tuple[int, int, int]
    allowed: tuple[tuple[str, int], ...]


@cache
def landlock_abi() -> int:
    """Return the version of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    answer: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(0, answer)


def rules(
    *,
    reading: Iterable[Path],
    listing: Iterable[Path],
    writing: Iterable[Path],
    network: bool,
    abi: int,
) -> Rules:
    """Return the rules under which exactly `reading` can be read and `writing` changed.

    `listing` can be listed, with all below. Paths that are not there are left out.
    """
    files = _FIRST_RIGHTS | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= TRUNCATE_ABI else 0)  # noqa: PLR2004 - the ABI's number
    # Not handled: device ioctls, of which an allowed terminal or /dev/null knows none.
    tcp = _BIND_TCP | _CONNECT_TCP if abi >= 4 and not network else 0  # noqa: PLR2004
    scoped = _SIGNAL | _ABSTRACT_UNIX_SOCKET if abi >= SIGNAL_ABI else 0
    return Rules(
        handled=(files, tcp, scoped),
        allowed=(*_each(reading, _READING), *_each(listing, _READ_DIR), *_each(writing, files)),
    )


def _each(paths: Iterable[Path], rights: int) -> Iterator[tuple[str, int]]:
    for path in paths:
        if path.is_dir():
            yield str(path), rights
        elif path.exists():
            # A rule for a file must not have the rights of a folder.
            yield str(path), rights & _FOR_FILES


# seccomp.


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
_OWN_NUMBERS = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "bind": (49, 200),
    "sendmmsg": (307, 269),
    "clone": (56, 220),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "open": (2, None),
    "openat": (257, 56),
    "truncate": (76, 45),
    "ptrace": (101, 117),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
}
"""Call → its number on x86-64 and on AArch64, where it may have none."""
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine → what AUDIT_ARCH calls it, and its place in the numbers above."""

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


class Filter(NamedTuple):
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
    audit, place = _MACHINES[platform.machine()]
    own = {name: numbers[place] for name, numbers in _OWN_NUMBERS.items()}
    number = _COMMON | {name: one for name, one in own.items() if one is not None}
    program = [
        (_LOAD_WORD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, audit),
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
        line for line, one in enumerate(program) if (one[0], one[-1]) == (_IF_EQUAL, _OWN_PID)
    ]
    return Filter(
        b"".join(struct.pack("=HBBI", *one) for one in program),
        tuple(8 * line + 4 for line in own_pid),
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
