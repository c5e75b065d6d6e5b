"""The kit's servers as real processes: ask them, signal them, see how they end."""

import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

KIT = (sys.executable, "-P", "-m", "theatre.construct_kit")
VERSION = "c0ffee" + "0" * 58
PATIENCE_SECONDS = 60.0

Document = dict[str, Any]
WriteModule = Callable[..., Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What a server on stdin and stdout answered, complained, and ended with."""

    answers: list[Document]
    stderr: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an HTTP server replied."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Document:
        """Return the body as the JSON object that it must be."""
        return cast("Document", json.loads(self.body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An HTTP server of the kit that is listening."""

    process: subprocess.Popen[str]
    announcement: str
    port: int

    def ask(self, body: bytes, *, method: str = "POST", path: str = "/", **headers: str) -> Reply:
        """Make one request over a connection of its own. `headers` replace the usual ones."""
        connection = self.connection()
        sent = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.request(method, path, body=body, headers=sent)
        reply = read_reply(connection)
        connection.close()
        return reply

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection to it."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)


def read_reply(connection: http.client.HTTPConnection) -> Reply:
    """Read one reply off a connection."""
    response = connection.getresponse()
    return Reply(status=response.status, headers=dict(response.headers), body=response.read())


def question(seq: int = 1, /, **members: object) -> Document:
    """Return the envelope of a call, as an engine sends it."""
    return {
        "invocation_id": f"5d5b8f2f-0000-5000-8000-{seq:012d}",
        "theatre_id": "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11",
        "episode_id": f"episode-{seq}",
        "construct_id": "pilot",
        "construct_version": VERSION,
        "input_data": {"seq": seq},
        "metadata": {"timeout_seconds": 30, "invoked_at": "2026-11-21T02:07:00.000000Z"},
        **members,
    }


def answer(seq: int = 1, /, **members: object) -> Document:
    """Return the envelope of a successful answer to `question(seq)`; `members` change it."""
    return {
        "invocation_id": f"5d5b8f2f-0000-5000-8000-{seq:012d}",
        "construct_id": "pilot",
        "construct_version": VERSION,
        "status": "success",
        "output_data": None,
        **members,
    }


def encoded(document: Document) -> bytes:
    """Return a document as one line without its line feed."""
    return json.dumps(document).encode()


def version_of(folder: Path, *names: str, target: str = "pilot:answer") -> str:
    """Return the version of a callable by the rule of docs/constructs.md, in plain Python."""
    kit = ["{python}", "-P", "-m", "theatre.construct_kit", "--stdio", "--folder", "{folder}"]
    return plain_version([*kit, target], folder, *names)


def plain_version(argv: Sequence[str], folder: Path, *names: str) -> str:
    """Return the version of a program by the same rule."""
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    bound = {"argv": argv, "files": files}
    text = json.dumps(bound, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def environment(version: str | None = VERSION) -> dict[str, str]:
    """Return this process's environment, with a construct version or without one."""
    # How Python buffers is part of what is tested.
    others = ("ECHELON_", "PYTHON")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return rest if version is None else rest | {"ECHELON_CONSTRUCT_VERSION": version}


def talk(
    folder: Path,
    *lines: bytes,
    target: str = "pilot:answer",
    options: Sequence[str] = (),
    version: str | None = VERSION,
    command: Sequence[str] = KIT,
) -> Talk:
    """Send whole lines to a server on stdin and stdout, and wait until it ends."""
    ended = subprocess.run(
        [*command, "--stdio", "--folder", str(folder), *options, target],
        input=b"".join(line + b"\n" for line in lines),
        env=environment(version),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    return Talk(answers=answers, stderr=ended.stderr.decode(), code=ended.returncode)


@contextmanager
def stdio_process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server on stdin and stdout; a process that the test leaves behind is killed."""
    with subprocess.Popen(
        [*KIT, "--stdio", "--folder", str(folder), "pilot:answer"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def http_service(
    folder: Path,
    *,
    target: str = "pilot:answer",
    options: Sequence[str] = (),
    version: str | None = VERSION,
    command: Sequence[str] = KIT,
) -> Iterator[Service]:
    """Start an HTTP server on a free port; a process that the test leaves behind is killed."""
    with subprocess.Popen(
        [*command, "--port", "0", "--folder", str(folder), *options, target],
        env=environment(version),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stderr is not None
            announcement = process.stderr.readline()
            found = re.search(r"listens on http://127\.0\.0\.1:(\d+)$", announcement.strip())
            assert found is not None, announcement + process.stderr.read()
            yield Service(process=process, announcement=announcement, port=int(found[1]))
        finally:
            process.kill()


def kit(
    folder: Path, *options: str, target: str = "pilot:answer"
) -> subprocess.CompletedProcess[str]:
    """Run a command of the kit that ends by itself."""
    return subprocess.run(
        [*KIT, "--folder", str(folder), *options, target],
        env=environment(None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_SECONDS,
    )
