"""Real constructs for the adapter tests: small scripts, run as child processes."""

import asyncio
import contextlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.oracles.served_scripts import unbound
from theatre.engine.canonical_json import JsonValue
from theatre.engine.oracle_contract import (
    Attempt,
    InvocationMetadata,
    OracleInvocationRequest,
    RetryPolicy,
)
from theatre.oracles.isolation.means import REFUSED
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.local import LocalOracleAdapter

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
VERSION = "c0ffee" + "0" * 58
NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
PLENTY_OF_SECONDS = 60.0

PRELUDE = """
import json, os, select, signal, subprocess, sys, time

def requests():
    for line in sys.stdin:
        yield json.loads(line)

def envelope(request, **members):
    return {
        "invocation_id": request["invocation_id"],
        "construct_id": request["construct_id"],
        "construct_version": os.environ["ECHELON_CONSTRUCT_VERSION"],
        "status": "success",
        "output_data": {"echo": request["input_data"]},
        **members,
    }

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

def answer(request, **members):
    say(json.dumps(envelope(request, **members)) + "\\n")

def hang():
    while True:
        signal.pause()

"""


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Every test ends the children that it started, zombies included."""
    before = children()
    yield
    assert children() <= before


def children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        # A thread of a server or of the event loop may end while it is looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
    return found


@pytest.fixture
def write_script(tmp_path: Path) -> Callable[[str], Path]:
    def write(body: str) -> Path:
        folder = tmp_path / "construct"
        folder.mkdir(exist_ok=True)
        path = folder / "main.py"
        path.write_text(PRELUDE + textwrap.dedent(body), encoding="utf-8")
        return path

    return write


@pytest.fixture
def request_for() -> Callable[..., OracleInvocationRequest]:
    def build(
        seq: int = 1,
        *,
        input_data: dict[str, JsonValue] | None = None,
        timeout_seconds: float = PLENTY_OF_SECONDS,
        version: str = VERSION,
        retry_policy: RetryPolicy | None = None,
    ) -> OracleInvocationRequest:
        return OracleInvocationRequest(
            invocation_id=f"5d5b8f2f-0000-5000-8000-{seq:012d}",
            theatre_id=THEATRE_ID,
            episode_id=f"episode-{seq}",
            construct_id="pilot",
            construct_version=version,
            input_data={"seq": seq} if input_data is None else input_data,
            metadata=InvocationMetadata(
                timeout_seconds=timeout_seconds,
                retry_policy=retry_policy or RetryPolicy(),
                invoked_at="2026-11-21T02:07:00.000000Z",
            ),
        )

    return build


@pytest.fixture
def adapter_of(write_script: Callable[[str], Path]) -> Callable[..., LocalOracleAdapter]:
    """Build an adapter over a script; its clocks stand still, so that attempts compare whole."""

    def build(
        body: str = "", *, limits: ProcessLimits | None = None, argv: list[str] | None = None
    ) -> LocalOracleAdapter:
        return LocalOracleAdapter(
            unbound(argv or [sys.executable, str(write_script(body))], VERSION),
            limits=limits or ProcessLimits(),
            clock=lambda: NOW,
            monotonic=lambda: 0.0,
        )

    return build


@pytest.fixture
def ask(adapter_of: Callable[..., LocalOracleAdapter]) -> Callable[..., list[Attempt]]:
    """Put requests to a script (or an argv), one after the other, over one adapter."""

    def run(
        body: str,
        *requests: OracleInvocationRequest,
        limits: ProcessLimits | None = None,
        argv: list[str] | None = None,
    ) -> list[Attempt]:
        async def session() -> list[Attempt]:
            adapter = adapter_of(body, limits=limits, argv=argv)
            try:
                return [await adapter.invoke(request) for request in requests]
            finally:
                await adapter.aclose()

        return asyncio.run(session())

    return run


@pytest.fixture
def unisolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs write notes where the test reads them, and see pids as the test does."""
    monkeypatch.setenv(REFUSED, "namespaces,landlock,other-user")


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Say whether a process is dead and reaped."""

    def check(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return check
