"""The hostile construct, for real: every case of its table ends as the table says."""

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from fixtures.constructs.hostile import hostile
from tests.theatre.oracles.hostile_cases import HOSTILE, Case, Transport, read_table
from tests.theatre.oracles.served_scripts import unbound
from tests.theatre.runs import EXPECTED, LATE, PILOT, Finished, pilot_stage
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    OracleAdapter,
    OracleInvocationRequest,
    RetryPolicy,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.local import LocalOracleAdapter
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.retry import make_retrying_invoker
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_scorers

RequestFor = Callable[..., OracleInvocationRequest]

TABLE = read_table()
HONEST = TABLE.case[0]
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")
ROWS = [(transport, case) for transport in TRANSPORTS for case in TABLE.on(transport)]
NAMES = [f"{transport}-{case.mode}" for transport, case in ROWS]
NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
AT = format_rfc3339(NOW)
POLICY = RetryPolicy(max_retries=1, backoff_seconds=5)
PROGRAM = [sys.executable, str(HOSTILE / "hostile.py")]

# Of this test process alone: whatever it starts carries it in its environment.
VERSION = hashlib.sha256(f"the hostile construct of {os.getpid()}".encode()).hexdigest()
MARK = f"ECHELON_CONSTRUCT_VERSION={VERSION}".encode()

MODES_OF_THE_ISSUE = {
    *("hang", "slow-drip", "endless-body", "two-mebibytes", "not-json", "deep-json", "nan"),
    *("wrong-invocation", "wrong-version", "wrong-output", "status-500", "redirects", "reset"),
    *("empty", "refuses", "crash-mid-answer", "allocates", "endless-stdout"),
    *("leaves-a-grandchild", "burns-cpu"),
}


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The construct behind HTTP on loopback, in a process of its own."""
    with subprocess.Popen(
        [*PROGRAM, "--port", "0"],
        stdout=subprocess.PIPE,
        env={"ECHELON_CONSTRUCT_VERSION": VERSION},
    ) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def adapter_over(
    transport: Transport, origin: str, *, monotonic: Callable[[], float] = lambda: 0.0
) -> OracleAdapter:
    if transport == "http":
        policy = OutboundPolicy(allow=("127.0.0.1",))
        return HTTPOracleAdapter(origin, policy=policy, clock=lambda: NOW, monotonic=monotonic)
    return LocalOracleAdapter(
        unbound([*PROGRAM, "--stdio"], VERSION),
        limits=TABLE.process_limits,
        clock=lambda: NOW,
        monotonic=monotonic,
    )


def open_descriptors() -> dict[str, str]:
    """Return what every descriptor of this process is open on, sockets included."""
    found = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that listed them
            found[descriptor.name] = str(descriptor.readlink())
    return found


def constructs_alive() -> set[int]:
    """Return every process that has the version in its environment, wherever it is by now."""
    alive = set()
    for process in Path("/proc").iterdir():
        with suppress(FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
            if process.name.isdecimal() and MARK in (process / "environ").read_bytes():
                alive.add(int(process.name))
    return alive


@pytest.fixture
def nothing_is_left(origin: str) -> Iterator[None]:
    """No process of the construct and no descriptor that was not there before; `origin` was."""
    assert origin
    descriptors, processes = open_descriptors(), constructs_alive()
    yield
    assert dict(open_descriptors().items() - descriptors.items()) == {}
    assert constructs_alive() - processes == set()


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize(("transport", "case"), ROWS, ids=NAMES)
def test_a_case_ends_as_the_table_says_and_the_next_call_is_answered(
    transport: Transport, case: Case, request_for: RequestFor, origin: str
) -> None:
    def request(seq: int, asked: Case) -> OracleInvocationRequest:
        return request_for(
            seq,
            input_data=asked.input_data({"n": seq}),
            timeout_seconds=asked.timeout_seconds,
            version=VERSION,
            retry_policy=POLICY,
        )

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def session() -> list[tuple[Attempt, ...]]:
        adapter, invoke = adapter_over(transport, origin), make_retrying_invoker(sleep)
        try:
            return [await invoke(adapter, one) for one in requests]
        finally:
            await adapter.aclose()

    cases = [case] * case.calls + [HONEST]
    requests = [request(seq, asked) for seq, asked in enumerate(cases, start=1)]
    calls = asyncio.run(session())
    expected = [
        [asked.expected(sent, seen, origin=origin, responded_at=AT) for seen in attempts]
        for asked, sent, attempts in zip(cases, requests, calls, strict=True)
    ]
    remark = calls[-1][0].stderr or ""
    if case.next_stderr_begins is not None:
        assert remark.startswith(case.next_stderr_begins)
        expected[-1] = [replace(attempt, stderr=remark) for attempt in expected[-1]]
    assert [list(attempts) for attempts in calls] == expected
    assert [len(attempts) for attempts in calls] == [asked.attempts for asked in cases]
    assert waits == [POLICY.backoff_seconds] * (case.attempts - 1) * case.calls


def test_the_table_has_every_mode_of_the_construct_on_every_transport_that_has_it() -> None:
    both = {*hostile.ANSWERS, *hostile.MISBEHAVIOURS}
    modes = {transport: {case.mode for case in TABLE.on(transport)} for transport in TRANSPORTS}
    assert modes == {"stdio": both | {*hostile.ONLY_STDIO}, "http": both | {*hostile.ONLY_HTTP}}
    assert modes["stdio"] | modes["http"] >= MODES_OF_THE_ISSUE


def theatre_of(transport: Transport, origin: str, folder: Path) -> Finished:
    """Run every case of a transport as one episode of one committed theatre."""
    records: list[JsonObject] = [
        {
            "episode_id": f"{number:02d}-{case.mode}",
            # One deadline for all, and a short one: less to burn than the case by itself has.
            "input_data": case.input_data(EXPECTED) | {"cpu_seconds": 0.05},
            "expected_output": EXPECTED,
        }
        for number, case in enumerate(TABLE.on(transport), start=1)
    ]
    changes: JsonObject = {
        "/version_pins/constructs": {PILOT: VERSION},
        "/version_pins/adapter_version": "local@1" if transport == "stdio" else "http@1",
        "/product_theatre_config/adapter_type": "local" if transport == "stdio" else "http",
        "/execution_policy/on_threshold": "continue",
        # A process may have to start within it.
        "/execution_policy/timeout_seconds": 3 if transport == "stdio" else 1,
        "/execution_policy/retry_policy": {"max_retries": POLICY.max_retries, "backoff_seconds": 0},
    }
    stage = pilot_stage(folder, records, changes=changes)
    return stage.run(adapter_over(transport, origin, monotonic=time.monotonic))


def last_words(finished: Finished, episodes: int) -> list[tuple[str, list[str | None], str]]:
    """Return episode id, the reasons of its attempts, and the status of the last one."""
    found = []
    for number in range(1, episodes + 1):
        record = finished.document(f"invocations/episode_{number:06d}.json")
        (call,) = cast("list[JsonObject]", record["calls"])
        attempts = cast("list[JsonObject]", call["attempts"])
        reasons = cast("list[str | None]", [attempt["reason"] for attempt in attempts])
        response = cast("JsonObject", attempts[-1]["response"])
        found.append((str(record["episode_id"]), reasons, str(response["status"])))
    return found


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_whole_theatre_of_the_cases_is_settled_certified_and_holds_to_the_table(
    transport: Transport, origin: str, tmp_path: Path
) -> None:
    finished = theatre_of(transport, origin, tmp_path)
    cases = TABLE.on(transport)
    assert last_words(finished, len(cases)) == [
        (f"{number:02d}-{case.mode}", [case.reason] * case.attempts, case.status.value)
        for number, case in enumerate(cases, start=1)
    ]
    by_status = Counter(case.status for case in cases)
    aggregate = finished.document("scores/aggregate.json")
    assert aggregate["episode_counts"] == {
        "total": len(cases),
        "scored": by_status[InvocationStatus.SUCCESS],
        "timeout": by_status[InvocationStatus.TIMEOUT],
        "error": by_status[InvocationStatus.ERROR],
        "refused": by_status[InvocationStatus.REFUSED],
        "unscored": 0,
        "not_run": 0,
    }
    certificate = finished.document("certificate.json")
    assert certificate["verification_tier"] == "UNVERIFIED"
    # The service over HTTP was started by the test: nothing of this machine holds it.
    isolated = transport == "stdio"
    assert certificate["caps"] == [
        *("replays-below-50", "failure-rate-above-20", "version-mismatch"),
        *([] if isolated else ["construct-not-isolated"]),
    ]
    assert cast("JsonObject", certificate["isolation"])["files"] is isolated
    report = check_bundle(
        finished.bundle,
        load_scorers(),
        registry=SchemaRegistry(),
        computations=load_computations(),
        sanitiser=TextSanitiser(),
        now=LATE,
    )
    assert (report.consistent, report.failed) == (True, ())
