"""What every adapter owes the engine, whatever its transport."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.oracles.loopback import Received, envelope, response, serving
from tests.theatre.oracles.served_scripts import served_adapter, unbound
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    OracleAdapter,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RehearsalAdapter,
)
from theatre.oracles.endpoints import ReachableAdapter
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.in_process import MockOracleAdapter
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.local import LocalOracleAdapter
from theatre.oracles.outbound_policy import OutboundPolicy

RequestFor = Callable[..., OracleInvocationRequest]
WriteScript = Callable[[str], Path]
Build = Callable[[WriteScript, str], OracleAdapter]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
VERSION = "c0ffee" + "0" * 58

# What a construct sends to each episode, beside the ids that it echoes.
SENT: dict[str, JsonObject] = {
    "episode-1": {"output_data": {"n": 1}},
    "episode-2": {"status": "refused", "error_detail": "not my field"},
    "episode-3": {"status": "ERROR", "error_detail": "no idea"},
    "episode-4": {"construct_version": "older"},
    "episode-5": {"status": "done"},
}


@pytest.fixture
def url() -> Iterator[str]:
    """The same construct behind HTTP."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request, **SENT[request.envelope["episode_id"]])))

    with serving(respond) as server:
        yield server.url


def local(write_script: WriteScript, _: str) -> OracleAdapter:
    body = f"""
    sent = {SENT!r}
    for request in requests(): answer(request, **sent[request["episode_id"]])
    """
    return LocalOracleAdapter(
        unbound([sys.executable, str(write_script(body))], VERSION),
        limits=ProcessLimits(),
        clock=lambda: NOW,
        monotonic=lambda: 0.0,
    )


def http(_: WriteScript, url: str) -> OracleAdapter:
    policy = OutboundPolicy(allow=("127.0.0.1",))
    return HTTPOracleAdapter(url, policy=policy, clock=lambda: NOW, monotonic=lambda: 0.0)


def served(write_script: WriteScript, _: str) -> OracleAdapter:
    return served_adapter(
        write_script,
        f"""
        sent = {SENT!r}
        def respond(request): return envelope(request, **sent[request["episode_id"]])
        serve(respond)
        """,
    )


def mock(_: WriteScript, __: str) -> OracleAdapter:
    return MockOracleAdapter(SENT, clock=lambda: NOW, default={"output_data": {}})


@pytest.mark.parametrize("build", [local, http, served, mock])
def test_an_adapter_reports_what_a_construct_sent_and_never_raises(
    build: Build, write_script: WriteScript, url: str, request_for: RequestFor
) -> None:
    async def session() -> list[Attempt]:
        adapter = build(write_script, url)
        attempts = [await adapter.invoke(request_for(seq)) for seq in range(1, 6)]
        await adapter.aclose()
        await adapter.aclose()
        return attempts

    attempts = asyncio.run(session())
    assert [attempt.reason for attempt in attempts] == [
        None,
        None,
        None,
        "version-mismatch",
        "not-envelope",
    ]
    response = OracleInvocationResponse(
        invocation_id=request_for(1).invocation_id,
        construct_id="pilot",
        construct_version=VERSION,
        output_data={"n": 1},
        latency_ms=0,
        status=InvocationStatus.SUCCESS,
        responded_at="2026-11-21T02:07:00.000000Z",
    )
    assert attempts[0] == Attempt(response=response)
    outcomes = [(a.response.status.value, a.response.error_detail) for a in attempts[1:]]
    assert outcomes == [
        ("refused", "not my field"),
        ("error", "no idea"),
        ("error", f"expected construct_version {VERSION} (pinned), got older (reported)"),
        ("error", "expected status to be one of success, timeout, error, refused"),
    ]
    assert attempts[3].response.construct_version == "older"


@pytest.mark.parametrize(
    ("build", "pin", "version", "is_rehearsal"),
    [
        (local, "local@1", VERSION, False),
        (http, "http@1", None, False),
        (served, "http@1", VERSION, False),
        (mock, "mock@1", None, True),
    ],
)
def test_an_adapter_names_itself_and_only_canned_answers_are_rehearsals(
    build: Build,
    pin: str,
    version: str | None,
    *,
    is_rehearsal: bool,
    write_script: WriteScript,
    url: str,
) -> None:
    adapter = build(write_script, url)
    assert isinstance(adapter, OracleAdapter)
    assert (adapter.pin, adapter.computed_version) == (pin, version)
    assert isinstance(adapter, RehearsalAdapter) is is_rehearsal


@pytest.mark.parametrize("build", [local, http, served])
def test_an_adapter_of_a_real_construct_can_be_checked_before_the_first_call(
    build: Build, write_script: WriteScript, url: str, request_for: RequestFor
) -> None:
    async def session() -> Attempt:
        adapter = build(write_script, url)
        assert isinstance(adapter, ReachableAdapter)
        await adapter.check_reachable()
        attempt = await adapter.invoke(request_for(1))
        await adapter.aclose()
        return attempt

    assert asyncio.run(session()).response.output_data == {"n": 1}


def test_the_mock_falls_back_to_its_default(request_for: RequestFor) -> None:
    adapter = MockOracleAdapter(SENT, clock=lambda: NOW, default={"output_data": {"n": 0}})
    attempt = asyncio.run(adapter.invoke(request_for(99)))
    assert attempt.response.output_data == {"n": 0}


def test_the_mock_without_an_answer_is_an_error(request_for: RequestFor) -> None:
    adapter = MockOracleAdapter(SENT, clock=lambda: NOW)
    attempt = asyncio.run(adapter.invoke(request_for(99)))
    assert (attempt.response.status, attempt.reason, attempt.response.error_detail) == (
        InvocationStatus.ERROR,
        "no-canned-answer",
        "expected a canned answer to this question, got none",
    )
