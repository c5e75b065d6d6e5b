"""`echelon` as a process that is forked where its modules are loaded already.

A start loads for half a second, which hundreds of commands need not repeat. Each is a process of
its own all the same, with its own arguments, folder, environment, streams and exit code. What it
shares with the others is how the interpreter began (hash seed, locale, PYTHON… variables): where
that is the question, and for whole runs that are to agree, take `echelon_process.echelon`.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from tests.theatre.echelon_process import CARTOGRAPH, ECHELON, PATIENCE_SECONDS, Answer, environment

LOADED = """
import asyncio.subprocess
import atexit
import contextlib
import fnmatch
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import cryptography.hazmat.backends.openssl.backend
import numpy.ma
import numpy.random
import pydantic.dataclasses
import securesystemslib.dsse

import backend.cli
import theatre.cli
from theatre.api.template_files import read_template, validate_template
from theatre.oracles.endpoints import python_environment
from theatre.scorers import load_scorers
from theatre.scorers import load_computations
from theatre.scorers import load_episode_runners


def next_command(server):
    raw, streams, _, _ = socket.recv_fds(server, 1 << 20, 3)
    while raw:
        command = json.loads(raw)
        for sdk in ("anthropic", "openai"):  # else the command loads it, and then this process
            if f"{sdk.upper()}_API_KEY" in command["environment"]:
                importlib.import_module(sdk)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            server.close()
            return command, streams, writing
        os.close(writing)
        for stream in streams:
            os.close(stream)
        server.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        load(reading)
        server.send(str(os.waitstatus_to_exitcode(status)).encode())
        raw, streams, _, _ = socket.recv_fds(server, 1 << 20, 3)
    os._exit(0)


def load(reading):
    os.set_blocking(reading, False)  # a grandchild may have it still
    with contextlib.suppress(BlockingIOError, ImportError):
        for name in os.read(reading, 1 << 16).decode().split():
            importlib.import_module(name)
    os.close(reading)
    gc.freeze()


def die_before(step):
    # Before a file gets its name, is removed, or is opened to be written.
    name, left = step[0], step[1]

    def writes(mode, flags):
        # `os.open` has no mode, only flags.
        return mode in {"w", "a"} or (mode is None and flags & os.O_WRONLY)

    def watch(event, arguments):
        nonlocal left
        if event == "os.rename":
            path = arguments[1]
        elif event == "os.remove" or (event == "open" and writes(*arguments[1:])):
            path = arguments[0]
        else:
            return
        if fnmatch.fnmatchcase(str(path), f"*{name}"):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


for load_plugins in (load_scorers, load_computations, load_episode_runners):
    load_plugins()
validate_template(read_template(Path(sys.argv[2])))
python_environment()
gc.freeze()
command, streams, writing = next_command(socket.socket(fileno=int(sys.argv[1])))
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
os.chdir(command["folder"])
os.environ.clear()
os.environ.update(command["environment"])
sys.argv = command["argv"]
if command["die_before"]:
    die_before(command["die_before"])
ended, known = None, set(sys.modules)
try:
    theatre.cli.main()
except SystemExit as end:
    if isinstance(end.code, str):
        raise
    ended = end.code
ours = ("theatre.", "backend.")
more = [n for n in set(sys.modules) - known if n.startswith(ours) or n in {"anthropic", "openai"}]
os.write(writing, " ".join(more).encode())
# All that a process does at its end, but for taking modules apart: that would first copy the memory
# which it shares, and take five times as long as a short command.
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(ended or 0)
"""
"""The process that is forked; it ends with the test runner.

What a command loads it tells at its end, and that is loaded here for those after it; the SDK of a
judge, which takes two seconds, before it. What libraries load late stands here, and what is made
once of models, schemas and installed packages.
"""

AT_THE_START = ("PYTHON", "LANG", "LC_")


class _Forking(NamedTuple):
    process: subprocess.Popen[bytes]
    requests: socket.socket

    def end(self) -> None:
        self.requests.close()
        self.process.wait()


@cache
def _forking() -> _Forking:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", LOADED, str(theirs.fileno()), CARTOGRAPH],
            # A library that starts threads of its own cannot be forked safely.
            env={**kept, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    forking = _Forking(process, ours)
    atexit.register(forking.end)
    ours.settimeout(PATIENCE_SECONDS)
    return forking


def forked(
    *arguments: str | Path,
    home: Path,
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
    die_before: tuple[str, int] | None = None,
) -> Answer:
    """Run `echelon` to its end, as `echelon_process.echelon` does. One at a time.

    With `die_before` it is killed before its nth step on a file whose path ends so (a pattern):
    before that is opened for writing, takes its name or is removed.
    """
    assert not any(name.startswith(AT_THE_START) for name in more or {}), "needs a start"
    request = {
        "argv": [str(ECHELON), *map(str, arguments)],
        "folder": str(cwd or Path.cwd()),
        "environment": environment(home, more=more),
        "die_before": die_before,
    }
    requests = _forking().requests
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
        socket.send_fds(requests, [json.dumps(request).encode()], streams)
        started = requests.recv(64)
        assert started, "expected a fork of echelon, got none: its modules do not load, see stderr"
        try:
            code = int(requests.recv(64))
        except TimeoutError:
            os.kill(int(started), signal.SIGKILL)
            requests.recv(64)
            raise
        stdout.seek(0)
        stderr.seek(0)
        return Answer(code=code, stdout=stdout.read().decode(), stderr=stderr.read().decode())
