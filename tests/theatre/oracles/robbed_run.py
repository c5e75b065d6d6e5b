"""A run with a secret in every place that a run has one, and a thief as its construct.

`python robbed_run.py FOLDER TRANSPORT` prints what the thief took, and what was tried of its
isolation. A process of its own: the thief robs the process that started it.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import sys
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from theatre.cli.adversaries.rehearsal import programs_folder
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import (
    InvocationMetadata,
    OracleAdapter,
    OracleInvocationRequest,
    RetryPolicy,
)
from theatre.engine.schema_registry import resource_root
from theatre.oracles.construct_files import PrivateFolder
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for
from theatre.oracles.in_process import PythonOracleAdapter, construct_from_callable
from theatre.oracles.served import served_adapter_for

SECRET = "the-answer-is-42"  # noqa: S105 - for a thief to find
REGISTRY = """
[constructs.stdin]
argv = ["{python}", "{folder}/thief.py"]
folder = "."
files = ["thief.py"]

[constructs.served]
argv = ["{python}", "-Pm", "theatre.construct_kit", "--socket", "--folder={folder}", "thief:steal"]
folder = "."
files = ["thief.py"]
serves_http = true

[constructs.networked]
argv = ["{python}", "{folder}/thief.py"]
folder = "."
files = ["thief.py"]
network = true
"""


def main(folder: Path, transport: str) -> None:
    """Set everything out, call the thief once, and print what came of it.

    Its memory is not closed here: that the adapters do it is part of what is tested.
    """
    # The thief and its registry lie elsewhere than what it is after.
    (folder / "construct").mkdir()
    (folder / "construct" / "thief.py").write_bytes((programs_folder() / "thief.py").read_bytes())
    (folder / "construct" / "constructs.toml").write_text(REGISTRY)
    with contextlib.ExitStack() as stack:
        loot = set_out(folder, stack)
        modes = modes_of(loot["files"])
        adapter = adapter_over(transport, folder / "construct")
        taken, tried = asyncio.run(called(adapter, loot, folder))
        heard = loot["heard"]()
        changed = modes != modes_of(loot["files"])
    found = {"taken": taken, "tried": tried, "heard": heard, "changed": changed}
    sys.stdout.write(json.dumps(found))


def set_out(folder: Path, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Put the secret wherever a run has answers, and return where that is."""
    store = folder / "store" / "theatres" / "one"
    store.mkdir(parents=True)
    for name in ("journal.jsonl", "audit_trail.jsonl"):
        (store / name).write_text(f'{{"answer": "{SECRET}"}}\n')
    dataset = folder / "dataset.jsonl"
    dataset.write_text(f'{{"expected_output": "{SECRET}"}}\n')
    dataset.chmod(0o644)
    held_open = stack.enter_context(dataset.open("rb"))
    os.set_inheritable(held_open.fileno(), True)  # noqa: FBT003 - takes no keyword
    another = PrivateFolder()
    stack.callback(lambda: another.remove())  # noqa: PLW0108 - else it goes with its last name
    (another.path / "construct.py").write_text(SECRET)
    beside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="echelon-construct-")))
    (beside / "notes.txt").write_text(SECRET)
    held = ctypes.create_string_buffer(SECRET.encode())
    stack.callback(lambda: held)
    tcp, unix, abstract = (
        stack.enter_context(socket.socket(family))
        for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX)
    )
    udp, datagram = (
        stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        for family in (socket.AF_INET, socket.AF_UNIX)
    )
    tcp.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", 0))
    unix.bind(str(beside / "socket"))
    datagram.bind(str(beside / "datagram"))
    abstract.bind(f"\0{beside.name}")
    for one in (tcp, unix, abstract):
        one.listen()
    udp.setblocking(False)  # noqa: FBT003 - takes no keyword
    return {
        "secret": SECRET,
        "runner": os.getpid(),
        "address": ctypes.addressof(held),
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "unix": unix.getsockname(),
        "datagram": datagram.getsockname(),
        "abstract": beside.name,
        "heard": lambda: has_datagram(udp),
        "files": {
            "journal": str(store / "journal.jsonl"),
            "trail": str(store / "audit_trail.jsonl"),
            "store": str(folder / "store"),
            "dataset": str(dataset),
            "copy of another": str(another.path / "construct.py"),
            "folder of another": str(beside / "notes.txt"),
            "ground truth": str(resource_root() / "fixtures" / "ground_truth"),
            "installed ground truth": f"{sysconfig.get_path('purelib')}/theatre/_resources",
            "templates": str(resource_root() / "fixtures" / "templates"),
            "registry": str(folder / "construct" / "constructs.toml"),
            "home": str(Path.home() / ".bashrc"),
            "passwords": "/etc/shadow",
        },
    }


def modes_of(files: dict[str, str]) -> dict[str, int]:
    """Return the modes of those files and folders that there are."""
    return {path: Path(path).stat().st_mode for path in files.values() if Path(path).exists()}


def has_datagram(udp: socket.socket) -> bool:
    """Say whether anything was received."""
    try:
        return bool(udp.recv(16))
    except BlockingIOError:
        return False


def adapter_over(transport: str, folder: Path) -> OracleAdapter:
    """Return the adapter that starts the thief in one of the ways there are."""
    registry = ConstructRegistry.load(folder / "constructs.toml")
    match transport:
        case "callable":
            construct = construct_from_callable("thief", "thief:steal", folder)
            return PythonOracleAdapter(construct, clock=now, monotonic=time.monotonic)
        case "served":
            return served_adapter_for(registry.find("served"), clock=now, monotonic=time.monotonic)
        case _:
            return local_adapter_for(registry.find(transport), clock=now, monotonic=time.monotonic)


async def called(adapter: OracleAdapter, loot: JsonObject, folder: Path) -> tuple[Any, Any]:
    """Return what the thief took, or why it could not answer, and what was tried before."""
    asked = {name: value for name, value in loot.items() if name != "heard"}
    try:
        tried = await adapter.probe_isolation([folder / "store", folder / "dataset.jsonl"])
        attempt = await adapter.invoke(
            OracleInvocationRequest(
                invocation_id="5d5b8f2f-0000-5000-8000-000000000001",
                theatre_id="0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11",
                episode_id="one",
                construct_id="thief",
                construct_version=adapter.computed_version or "",
                input_data=asked,
                metadata=InvocationMetadata(
                    timeout_seconds=60,
                    retry_policy=RetryPolicy(max_retries=0, backoff_seconds=0),
                    deterministic=False,
                    sanitised=False,
                    invoked_at="2026-11-21T02:07:00.000000Z",
                ),
            )
        )
    finally:
        await adapter.aclose()
    answer = attempt.response.output_data
    return (answer or {}).get("taken", [str(attempt)]), tried.as_document()


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
