"""A construct that answers no question: it takes what it can, and says what it took.

`input_data` says where to look. As a program it speaks on stdin; the kit serves `steal`, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def steal(input_data: dict[str, Any]) -> dict[str, Any]:
    """Return the names of all that could be taken."""
    secret, runner = input_data["secret"], input_data["runner"]
    found = [name for name, path in input_data["files"].items() if _works(_read, path)]
    found += [
        f"write {name}" for name, path in input_data["files"].items() if _works(_append, path)
    ]
    entry = Path("/proc") / str(runner)
    ways: dict[str, Callable[[], object]] = {
        "environ": lambda: _hold(secret, (entry / "environ").read_bytes()),
        "mem": lambda: _memory_of(entry),
        "cwd": lambda: list((entry / "cwd").iterdir()),
        "fd": lambda: [_read(str(one)) for one in _data_of(entry)],
        "root": lambda: list((entry / "root").iterdir()),
        "vm": lambda: _read_memory(runner, input_data["address"]),
        "kill": lambda: _signal(runner),
        "variable": lambda: _hold(secret, repr(dict(os.environ)).encode()),
        "descriptors": lambda: _hold(secret, b"".join(_descriptors())),
        "tcp": lambda: _connect(socket.AF_INET, ("127.0.0.1", input_data["tcp"])),
        "unix": lambda: _connect(socket.AF_UNIX, input_data["unix"]),
        "abstract": lambda: _connect(socket.AF_UNIX, "\0" + input_data["abstract"]),
        "udp": lambda: _send(("127.0.0.1", input_data["udp"])),
    }
    return {"taken": sorted([*found, *(name for name, way in ways.items() if _works(way))])}


def _works(way: Callable[..., object], *arguments: object) -> bool:
    try:
        way(*arguments)
    except (OSError, LookupError):
        return False
    return True


def _hold(secret: str, text: bytes) -> None:
    if secret.encode() not in text:
        raise LookupError("nothing of value")


def _read(path: str) -> bytes:
    if Path(path).is_dir():
        # Names are no loot: what matters is what lies below.
        first = next(Path(path).rglob("*.*"), None)
        if first is None:
            raise LookupError("nothing to be seen")
        return _read(str(first))
    with Path(path).open("rb") as file:
        return file.read(1)


def _append(path: str) -> None:
    place = Path(path)
    if place.is_dir():
        (place / "thief").write_text("was here")
        (place / "thief").unlink()
    else:
        place.open("ab").close()


def _data_of(entry: Path) -> list[Path]:
    descriptors = list((entry / "fd").iterdir())
    found = [one for one in descriptors if str(one.readlink()).endswith(".jsonl")]
    if not found:
        raise LookupError("nothing of value")
    return found


def _memory_of(entry: Path) -> bytes:
    mapped = (entry / "maps").read_text().splitlines()
    first = next(line for line in mapped if line.split()[1].startswith("r"))
    with (entry / "mem").open("rb") as file:
        file.seek(int(first.partition("-")[0], 16))
        return file.read(8)


def _read_memory(pid: int, address: int) -> None:
    held = ctypes.create_string_buffer(8)

    class Range(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    here, there = Range(ctypes.addressof(held), 8), Range(address, 8)
    libc = ctypes.CDLL(None, use_errno=True)
    read = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if read != 8:
        raise OSError(ctypes.get_errno(), "process_vm_readv")


def _signal(pid: int) -> None:
    os.kill(pid, 0)
    # In a namespace of its own the number is another process's, or nobody's.
    if not (Path("/proc") / str(pid) / "cmdline").read_bytes().count(b"robbed_run"):
        raise LookupError("another process")


def _descriptors() -> list[bytes]:
    found = []
    for descriptor in range(3, 256):
        try:
            found.append(os.pread(descriptor, 1 << 16, 0))
        except OSError:
            continue
    return found


def _connect(family: int, address: object) -> None:
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)  # type: ignore[arg-type]  # one of the two forms


def _send(address: tuple[str, int]) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"loot", address)


def main() -> None:
    """Answer envelopes on stdin."""
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {name: asked[name] for name in ("invocation_id", "construct_id")}
        answer |= {"construct_version": os.environ["ECHELON_CONSTRUCT_VERSION"]}
        answer |= {"status": "success", "output_data": steal(asked["input_data"])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
