"""The HTTP adapter and what constructs answer: envelopes, nonsense, too much, nothing."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.theatre.oracles.http_asking import adapter_of, ask, closing, saying
from tests.theatre.oracles.http_misbehaviour import HOSTILE, MEBIBYTE, SLOW, Outcome
from tests.theatre.oracles.loopback import Received, Respond, envelope, honest, response, serving
from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
)
from theatre.oracles.retry import make_retrying_invoker

VERSION = "c0ffee" + "0" * 58
RequestFor = Callable[..., OracleInvocationRequest]


def test_a_call_is_one_canonical_envelope_and_its_answer_is_recorded(
    request_for: RequestFor,
) -> None:
    request = request_for(7, input_data={"b": 1, "a": "ö"})
    ticks = iter([10.0, 10.25])
    with serving(honest) as server:
        (attempt,) = ask(server, request, monotonic=lambda: next(ticks))
        assert attempt == Attempt(
            response=OracleInvocationResponse(
                invocation_id=request.invocation_id,
                construct_id="pilot",
                construct_version=VERSION,
                output_data={"echo": {"b": 1, "a": "ö"}},
                latency_ms=250,
                status=InvocationStatus.SUCCESS,
                responded_at="2026-11-21T02:07:00.000000Z",
            )
        )
        body = canonical_bytes(request.as_document())
        assert server.received == [
            Received(
                line="POST /invoke HTTP/1.1",
                headers={
                    "host": f"127.0.0.1:{server.port}",
                    "accept": "application/json",
                    "accept-encoding": "identity",
                    "content-type": "application/json",
                    "content-length": str(len(body)),
                    "idempotency-key": request.invocation_id,
                    "user-agent": "echelon-theatre",
                },
                body=body,
            )
        ]


@pytest.mark.parametrize(("respond", "expected"), HOSTILE.values(), ids=HOSTILE.keys())
def test_whatever_a_construct_does_is_an_attempt_with_a_reason(
    respond: Respond, expected: Outcome, request_for: RequestFor
) -> None:
    with serving(respond) as server:
        seconds = 0.4 if expected is SLOW else 30
        (attempt,) = ask(server, request_for(timeout_seconds=seconds))
        status, reason, detail, raw = expected
        origin = server.url.removesuffix("/invoke")
        assert (
            attempt.response.status.value,
            attempt.reason,
            attempt.response.error_detail,
            attempt.raw,
        ) == (status, reason, detail and detail.replace("{origin}", origin), raw)
        assert (attempt.response.output_data, attempt.stderr) == (None, None)
        assert len(server.received) == 1


def test_little_more_than_the_limit_is_read_of_an_endless_answer(request_for: RequestFor) -> None:
    written: list[int] = []

    async def counted(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while sum(written) < 1000 * MEBIBYTE:
            writer.write(b"x" * MEBIBYTE)
            await writer.drain()
            written.append(MEBIBYTE)

    with serving(counted) as server:
        (attempt,) = ask(server, request_for())
    assert attempt.reason == "too-large"
    # What is more waits in the buffers of two sockets.
    assert sum(written) < 32 * MEBIBYTE


def test_an_answer_of_exactly_the_limit_is_read(request_for: RequestFor) -> None:
    async def fill(request: Received, writer: asyncio.StreamWriter) -> None:
        room = MAX_ANSWER_BYTES - len(envelope(request, output_data={"fill": ""}))
        writer.write(response(envelope(request, output_data={"fill": "x" * room})))

    with serving(fill) as server:
        (attempt,) = ask(server, request_for())
    assert (attempt.reason, attempt.response.status) == (None, InvocationStatus.SUCCESS)


WRONG_ECHOES = {
    "invocation_id": "wrong-invocation-id",
    "construct_id": "wrong-construct-id",
    "construct_version": "version-mismatch",
}


@pytest.mark.parametrize(("member", "reason"), WRONG_ECHOES.items(), ids=WRONG_ECHOES.keys())
def test_an_answer_that_echoes_something_else_is_an_error(
    member: str, reason: str, request_for: RequestFor
) -> None:
    with serving(saying(**{member: "other"})) as server:
        (attempt,) = ask(server, request_for())
    assert (attempt.reason, attempt.response.output_data) == (reason, None)


BROKEN_ON_THE_WIRE = {
    "not HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not-http"),
    "HTTP 7": (b"HTTP/7.0 200 OK\r\n\r\n", "not-http"),
    "impossible length": (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "not-http"),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "not-http",
    ),
    "huge header": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "not-http"),
    "thousands of headers": (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 10_000 + b"\r\n", "not-http"),
    "cut body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "disconnected"),
    "no chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "not-http"),
    "switches protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
        "http-status",
    ),
}


@pytest.mark.parametrize(
    ("sent", "reason"), BROKEN_ON_THE_WIRE.values(), ids=BROKEN_ON_THE_WIRE.keys()
)
def test_what_is_no_http_answer_is_an_error(
    sent: bytes, reason: str, request_for: RequestFor
) -> None:
    with serving(closing(sent)) as server:
        (attempt,) = ask(server, request_for())
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, reason)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sent=st.binary(max_size=200)
    | st.builds(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail, st.binary(max_size=200))
)
def test_no_bytes_make_the_adapter_raise(sent: bytes, request_for: RequestFor) -> None:
    with serving(closing(sent)) as server:
        (attempt,) = ask(server, request_for())
    assert attempt.response.status is InvocationStatus.ERROR
    assert attempt.reason is not None


@pytest.mark.parametrize(
    ("status", "asked", "waited"),
    [
        ("429 Too Many Requests", "7", [7, 7]),
        ("503 Service Unavailable", "1.5", [1.5, 2]),
        # A construct that wants it cannot hold a run up.
        ("503 Service Unavailable", "9" * 400, [60, 60]),
        ("503 Service Unavailable", "-3", [1, 2]),
        ("503 Service Unavailable", "soon", [1, 2]),
        ("500 Oops", "7", [1, 2]),
    ],
)
def test_a_retry_waits_as_long_as_the_answer_asks(
    status: str, asked: str, waited: list[float], request_for: RequestFor
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def session(url: str) -> tuple[Attempt, ...]:
        policy = RetryPolicy(max_retries=2, backoff_seconds=1)
        async with contextlib.aclosing(adapter_of(url)) as adapter:
            return await make_retrying_invoker(sleep)(adapter, request_for(retry_policy=policy))

    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", status=status, headers=f"Retry-After: {asked}\r\n"))

    with serving(respond) as one:
        attempts = asyncio.run(session(one.url))
    assert waits == waited
    assert {frozenset(attempt.as_document()) for attempt in attempts} == {
        frozenset({"response", "reason", "raw", "stderr"})
    }


# One of each status and reason: they decide what is tried again.
RETRIED = dict({case[1][:2]: (name, case) for name, case in HOSTILE.items()}.values())
RETRIED["succeeds"] = (honest, ("success", None, None, None))
RETRIED["wrong version"] = (
    saying(construct_version="older"),
    ("error", "version-mismatch", None, None),
)
TRIED = {"succeeds": 1, "wrong version": 1, "refuses": 1}


@pytest.mark.parametrize("name", RETRIED)
def test_attempts_are_counted_alike_on_both_sides(name: str, request_for: RequestFor) -> None:
    respond, (status, reason, _, __) = RETRIED[name]
    tried = TRIED.get(name, 3)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def session(url: str, request: OracleInvocationRequest) -> tuple[Attempt, ...]:
        adapter = adapter_of(url)
        try:
            return await make_retrying_invoker(sleep)(adapter, request)
        finally:
            await adapter.aclose()

    seconds = 0.1 if status == "timeout" else 30
    policy = RetryPolicy(max_retries=2, backoff_seconds=1)
    with serving(respond) as server:
        attempts = asyncio.run(
            session(server.url, request_for(timeout_seconds=seconds, retry_policy=policy))
        )
        assert server.is_left_alone()
        keys = [received.headers["idempotency-key"] for received in server.received]
    made = [(attempt.response.status.value, attempt.reason) for attempt in attempts]
    assert made == [(status, reason)] * tried
    assert keys == [request_for().invocation_id] * tried
    assert waited == [1, 2][: tried - 1]
