"""The canary's program: tries what an isolated program must not be able to do.

Started as a construct is (`canary.py`), with nothing of the package. One JSON object on stdin says
what to try, one on stdout what opened. Nothing that it opens is stored or printed.
"""

from __future__ import annotations

import json
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def main() -> None:
    """Try everything once and print what opened."""
    wanted = json.load(sys.stdin)
    json.dump(
        {
            "pid": os.getpid(),
            "files": [path for path in wanted["files"] if _opens(_read, path)]
            + [path for path in wanted["folders"] if _opens(_write_into, path)],
            "processes": _processes(wanted["runner"]),
            "network": [name for name, way in _ways(wanted).items() if _opens(way)],
        },
        sys.stdout,
    )


def _processes(runner: int) -> dict[str, Any]:
    folder = f"/proc/{runner}"
    found: dict[str, Any] = {
        "opened": [name for name in ("environ", "mem") if _opens(_read, f"{folder}/{name}")],
        "signalled": _opens(os.kill, runner, 0),
        "stat": None,
    }
    try:
        with open(f"{folder}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            found["stat"] = file.read()
    except OSError:
        pass
    return found


def _ways(wanted: dict[str, Any]) -> dict[str, Callable[[], None]]:
    loopback = ("127.0.0.1", wanted["tcp"])
    return {
        "tcp": lambda: _connect(socket.AF_INET, loopback),
        "udp": lambda: _send(("127.0.0.1", wanted["udp"])),
        "unix": lambda: _connect(socket.AF_UNIX, wanted["unix"]),
        "datagram": lambda: _send_from_pair(wanted["datagram"]),
        "abstract": lambda: _connect(socket.AF_UNIX, "\0" + wanted["abstract"]),
    }


def _opens(attempt: Callable[..., None], *arguments: object) -> bool:
    try:
        attempt(*arguments)
    except OSError:
        return False
    return True


def _read(path: str) -> None:
    if os.path.isdir(path):  # noqa: PTH112 - pathlib costs the start of a program
        os.listdir(path)  # noqa: PTH208
    else:
        # Opened is read: of a process's memory the first byte is never mapped.
        os.close(os.open(path, os.O_RDONLY))


def _write_into(folder: str) -> None:
    path = f"{folder}/echelon-canary-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)  # noqa: PTH108


def _connect(family: int, address: object) -> None:
    with socket.socket(family) as one:
        one.settimeout(1)
        one.connect(address)  # type: ignore[arg-type]  # one of the two forms


def _send(address: tuple[str, int]) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"canary", address)


def _send_from_pair(path: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.sendto(b"canary", path)


if __name__ == "__main__":
    main()
