"""The HTTP adapter against honest and hostile servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.theatre.oracles.loopback import (
    LoopbackServer,
    Received,
    Respond,
    envelope,
    honest,
    response,
    serving,
)
from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleAdapter,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
)
from theatre.oracles.errors import (
    AdapterClosedError,
    OutboundRefusedError,
    RequestHeadersError,
)
from theatre.oracles.http import HTTPOracleAdapter, http_adapter_for
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.oracles.request_headers import RequestHeaders
from theatre.oracles.retry import invoke_with_retries

RequestFor = Callable[..., OracleInvocationRequest]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
VERSION = "c0ffee" + "0" * 58
LOOPBACK = OutboundPolicy(allow=("127.0.0.1",))
MEBIBYTE = 1024 * 1024
TOKEN = "tok-5d5b8f2f7a11"  # noqa: S105 - the secret of this test


def adapter_of(url: str, **settings: Any) -> HTTPOracleAdapter:  # noqa: ANN401 - as the class
    """An adapter whose clocks stand still, so that attempts compare whole."""
    given_settings = {"policy": LOOPBACK, "clock": lambda: NOW, "monotonic": lambda: 0.0}
    return HTTPOracleAdapter(url, **{**given_settings, **settings})


def ask(
    server: LoopbackServer,
    *requests: OracleInvocationRequest,
    **settings: Any,  # noqa: ANN401 - as the class
) -> list[Attempt]:
    """Put requests to a server one after the other over one adapter, and leave it alone."""

    async def session() -> list[Attempt]:
        adapter = adapter_of(server.url, **settings)
        try:
            return [await adapter.invoke(request) for request in requests]
        finally:
            await adapter.aclose()

    attempts = asyncio.run(session())
    assert server.is_left_alone()
    return attempts


def answering(whole_response: bytes) -> Respond:
    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(whole_response)

    return respond


def closing(whole_response: bytes) -> Respond:
    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(whole_response)
        writer.close()

    return respond


def saying(**members: object) -> Respond:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request, **members)))

    return respond


async def hang(_: Received, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hang_in_the_body(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await asyncio.Event().wait()


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def preliminary_for_ever(_: Received, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
        await writer.drain()
        await asyncio.sleep(0)


async def endless_body(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def endless_chunks(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# How a construct behaves: what the attempt says (status, reason, detail, raw).
CUT = "x" * MEBIBYTE
Outcome = tuple[str, str | None, str | None, str | None]
SLOW = ("timeout", "timeout", "expected an answer within 0.4 s, got none", None)
GONE = (
    "error",
    "disconnected",
    "expected an answer from {origin}, got: the end of the connection",
    None,
)
TOO_LARGE = ("error", "too-large", "expected at most 1048576 bytes, got more", CUT)
HOSTILE: dict[str, tuple[Respond, Outcome]] = {
    "hangs": (hang, SLOW),
    "hangs in the body": (hang_in_the_body, SLOW),
    "drips": (drip, SLOW),
    "sends 1xx for ever": (preliminary_for_ever, SLOW),
    "endless body": (endless_body, TOO_LARGE),
    "endless chunks": (endless_chunks, TOO_LARGE),
    "2 MiB": (answering(response(b"x" * 2 * MEBIBYTE)), TOO_LARGE),
    "reset": (
        reset,
        (
            "error",
            "disconnected",
            "expected an answer from {origin}, got: [Errno 104] Connection reset by peer",
            None,
        ),
    ),
    "closes without a word": (closing(b""), GONE),
    "ends within the head": (closing(b"HTTP/1.1 200 OK\r\nContent-Le"), GONE),
    "302": (
        answering(
            response(b"", status="302 Found", headers="Location: http://169.254.169.254/\r\n")
        ),
        ("error", "redirect", "expected status 200, got 302 to http://169.254.169.254/", None),
    ),
    "308 to nowhere": (
        answering(response(b"", status="308 Permanent Redirect")),
        ("error", "redirect", "expected status 200, got 308 to nowhere", None),
    ),
    "500": (
        answering(response(b"no luck\x00\xff", status="500 Oops")),
        ("error", "http-status", "expected status 200, got 500", "no luck\x00\\xff"),
    ),
    "500 with an endless body": (
        answering(response(b"x" * 2 * MEBIBYTE, status="500 Oops")),
        ("error", "http-status", "expected status 200, got 500", CUT),
    ),
    "404 in gzip": (
        answering(response(b"x", status="404 Not Found", headers="Content-Encoding: gzip\r\n")),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['gzip']",
            None,
        ),
    ),
    "204": (
        answering(b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("error", "http-status", "expected status 200, got 204", ""),
    ),
    "201": (
        answering(response(b"{}", status="201 Created")),
        ("error", "http-status", "expected status 200, got 201", "{}"),
    ),
    "gzip": (
        answering(response(gzip.compress(b"{}"), headers="Content-Encoding: gzip\r\n")),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['gzip']",
            None,
        ),
    ),
    "identity, then gzip": (
        answering(
            response(b"", headers="Content-Encoding: identity\r\nContent-Encoding: br\r\n"),
        ),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['identity', 'br']",
            None,
        ),
    ),
    "empty": (
        answering(response(b"")),
        (
            "error",
            "not-json",
            "expected JSON, got something else at line 1 column 1: Expecting value",
            "",
        ),
    ),
    "not JSON": (
        answering(response(b"<html>")),
        (
            "error",
            "not-json",
            "expected JSON, got something else at line 1 column 1: Expecting value",
            "<html>",
        ),
    ),
    "deep JSON": (
        answering(response(b"[" * 49 + b"]" * 49)),
        (
            "error",
            "too-deep",
            "expected at most 48 levels of nesting, got more",
            "[" * 49 + "]" * 49,
        ),
    ),
    "NaN": (
        answering(response(b'{"a":NaN}')),
        ("error", "non-finite", "expected finite numbers, got NaN", '{"a":NaN}'),
    ),
    "list": (
        answering(response(b"[]")),
        ("error", "not-envelope", "expected an envelope object, got array", "[]"),
    ),
    "refuses": (
        saying(status="refused", error_detail="not my field", output_data=None),
        ("refused", None, "not my field", None),
    ),
    "reports an error": (
        saying(status="error", output_data=None),
        ("error", None, "no reason given", None),
    ),
}


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


def test_a_connection_is_used_again(request_for: RequestFor) -> None:
    with serving(honest) as server:
        attempts = ask(server, *(request_for(seq) for seq in range(20)))
        assert [attempt.response.output_data for attempt in attempts] == [
            {"echo": {"seq": seq}} for seq in range(20)
        ]
        assert server.connections == 1


def test_an_answer_to_no_question_is_not_taken_for_the_next_one(request_for: RequestFor) -> None:
    async def answer_twice(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request)) * 2)

    with serving(answer_twice) as server:
        first, second = ask(server, request_for(1), request_for(2))
    assert first.response.output_data == {"echo": {"seq": 1}}
    assert second.response.output_data in ({"echo": {"seq": 2}}, None)


def test_a_hundred_calls_are_under_way_at_once(request_for: RequestFor) -> None:
    waiting: list[Received] = []
    all_here = asyncio.Event()

    async def answer_when_all_are_here(request: Received, writer: asyncio.StreamWriter) -> None:
        waiting.append(request)
        if len(waiting) == 100:
            all_here.set()
        await all_here.wait()
        writer.write(response(envelope(request)))

    async def session(url: str) -> list[Attempt]:
        adapter = adapter_of(url)
        try:
            calls = (adapter.invoke(request_for(seq)) for seq in range(100))
            return await asyncio.gather(*calls)
        finally:
            await adapter.aclose()

    with serving(answer_when_all_are_here) as server:
        attempts = asyncio.run(session(server.url))
        assert server.is_left_alone()
        assert server.connections == 100
    assert [attempt.response.output_data for attempt in attempts] == [
        {"echo": {"seq": seq}} for seq in range(100)
    ]


def test_a_cancelled_call_leaves_no_connection_and_the_adapter_usable(
    request_for: RequestFor,
) -> None:
    async def hang_once(request: Received, writer: asyncio.StreamWriter) -> None:
        await (hang if request.envelope["input_data"] == {"seq": 1} else honest)(request, writer)

    async def session(server: LoopbackServer) -> tuple[bool, Attempt]:
        adapter = adapter_of(server.url)
        call = asyncio.create_task(adapter.invoke(request_for(1)))
        assert await asyncio.to_thread(server.has_been_asked, times=1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        left_alone = await asyncio.to_thread(server.is_left_alone)
        attempt = await adapter.invoke(request_for(2))
        await adapter.aclose()
        return left_alone, attempt

    with serving(hang_once) as server:
        left_alone, attempt = asyncio.run(session(server))
        assert server.is_left_alone()
    assert left_alone
    assert attempt.response.output_data == {"echo": {"seq": 2}}


def test_closing_ends_a_call_that_is_under_way(request_for: RequestFor) -> None:
    async def session(server: LoopbackServer) -> Attempt:
        adapter = adapter_of(server.url)
        call = asyncio.create_task(adapter.invoke(request_for()))
        assert await asyncio.to_thread(server.has_been_asked, times=1)
        await adapter.aclose()
        await adapter.aclose()
        with pytest.raises(AdapterClosedError):
            await adapter.invoke(request_for(2))
        return await call

    with serving(hang) as server:
        attempt = asyncio.run(session(server))
        assert server.is_left_alone()
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "disconnected")


def test_waiting_for_a_name_counts_as_time_of_the_call(request_for: RequestFor) -> None:
    async def never(_: str, __: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def session() -> Attempt:
        adapter = adapter_of("http://construct.example/", lookup=never)
        try:
            return await adapter.invoke(request_for(timeout_seconds=0.1))
        finally:
            await adapter.aclose()

    attempt = asyncio.run(session())
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.TIMEOUT, "timeout")


def test_a_port_where_nobody_listens_is_unreachable(request_for: RequestFor) -> None:
    with serving(honest) as server:
        gone = server
    (attempt,) = ask(gone, request_for())
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "unreachable")
    assert f"127.0.0.1:{gone.port}" in (attempt.response.error_detail or "")


def test_a_name_without_an_address_is_unreachable(request_for: RequestFor) -> None:
    async def session() -> list[Attempt]:
        adapter = HTTPOracleAdapter(
            "http://construct.invalid/",
            policy=LOOPBACK,
            clock=lambda: NOW,
            monotonic=lambda: 0.0,
            lookup=nowhere,
        )
        try:
            return [await adapter.invoke(request_for())]
        finally:
            await adapter.aclose()

    async def nowhere(_: str, __: int) -> list[str]:
        return []

    (attempt,) = asyncio.run(session())
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "unreachable")


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that nobody has vouched for."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_a_certificate_that_nobody_vouched_for_is_a_tls_failure(
    self_signed: ssl.SSLContext, request_for: RequestFor
) -> None:
    with serving(honest, tls=self_signed) as server:
        (attempt,) = ask(server, request_for())
        assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "tls-failure")
        assert server.received == []


def test_https_to_a_server_without_it_is_a_tls_failure(request_for: RequestFor) -> None:
    with serving(honest) as server:
        adapter = adapter_of(server.url.replace("http:", "https:"))

        async def session() -> Attempt:
            try:
                return await adapter.invoke(request_for())
            finally:
                await adapter.aclose()

        attempt = asyncio.run(session())
        assert (attempt.reason, server.received) == ("tls-failure", [])


def test_a_cookie_is_not_brought_back(request_for: RequestFor) -> None:
    async def set_cookie(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request), headers="Set-Cookie: memory=of-before\r\n"))

    with serving(set_cookie) as server:
        ask(server, request_for(1), request_for(2))
        assert ["cookie" in received.headers for received in server.received] == [False, False]


RETRIED = {name: (respond, outcome) for name, (respond, outcome) in HOSTILE.items()}
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
            return await invoke_with_retries(adapter, request, sleep=sleep)
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


def with_token(name: str = "Authorization", scheme: str = "Bearer ") -> RequestHeaders:
    return RequestHeaders({name: scheme + TOKEN})


def test_request_headers_are_sent_and_recorded_nowhere(request_for: RequestFor) -> None:
    with serving(honest) as server:
        (attempt,) = ask(server, request_for(), headers=with_token())
        assert server.received[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert attempt.response.status is InvocationStatus.SUCCESS
    assert TOKEN not in repr((attempt, with_token()))


def echo_token_in(wrap: Callable[[str], bytes]) -> Respond:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(wrap(request.headers["authorization"]))

    return respond


ECHOES = {
    "an error page": (
        lambda value: response(f"<h1>{value}</h1>".encode(), status="500 Oops"),
        ("http-status", "expected status 200, got 500", "<h1>[redacted]</h1>"),
    ),
    "the token alone": (
        lambda value: response(f"no {value.split()[1]}!".encode(), status="403 Forbidden"),
        ("http-status", "expected status 200, got 403", "no [redacted]!"),
    ),
    "an answer": (
        lambda value: response(json.dumps({"status": "success", "you": value}).encode()),
        (
            "credential-echoed",
            "expected an answer without the value of a request header, got one with it",
            '{"status": "success", "you": "[redacted]"}',
        ),
    ),
    "a redirect": (
        lambda value: response(b"", status="302 Found", headers=f"Location: /{value}\r\n"),
        ("redirect", "expected status 200, got 302 to /[redacted]", None),
    ),
}


@pytest.mark.parametrize(("wrap", "expected"), ECHOES.values(), ids=ECHOES.keys())
def test_a_request_header_that_comes_back_is_redacted(
    wrap: Callable[[str], bytes],
    expected: tuple[str, str, str | None],
    request_for: RequestFor,
) -> None:
    with serving(echo_token_in(wrap)) as server:
        (attempt,) = ask(server, request_for(), headers=with_token())
    assert (attempt.reason, attempt.response.error_detail, attempt.raw) == expected


def test_a_registered_construct_is_called_with_headers_from_the_environment(
    request_for: RequestFor,
) -> None:
    with serving(honest) as server:
        construct = RemoteConstruct(
            construct_id="pilot", url=server.url, headers_env={"X-Api-Key": "PILOT_KEY"}
        )

        async def session() -> Attempt:
            adapter = http_adapter_for(
                construct,
                policy=LOOPBACK,
                environment={"PILOT_KEY": TOKEN},
                clock=lambda: NOW,
                monotonic=lambda: 0.0,
            )
            try:
                return await adapter.invoke(request_for())
            finally:
                await adapter.aclose()

        attempt = asyncio.run(session())
        assert attempt.response.output_data == {"echo": {"seq": 1}}
        assert server.received[0].headers["x-api-key"] == TOKEN


def test_a_header_without_its_variable_is_refused_by_name() -> None:
    construct = RemoteConstruct(
        construct_id="pilot", url="https://construct.example/", headers_env={"X-Key": "PILOT_KEY"}
    )
    with pytest.raises(RequestHeadersError, match=r"header X-Key in the .* variable PILOT_KEY"):
        http_adapter_for(
            construct,
            policy=LOOPBACK,
            environment={},
            clock=lambda: NOW,
            monotonic=lambda: 0.0,
        )


WRONG_HEADERS = {
    "no name": {"": TOKEN},
    "space in the name": {"X Key": TOKEN},
    "line break in the name": {"X\r\nY": TOKEN},
    "line break in the value": {"X": f"{TOKEN}\r\nHost: other"},
    "NUL in the value": {"X": f"{TOKEN}\0"},
    "not ASCII": {"X": f"{TOKEN}ö"},
    "empty value": {"X": ""},
    "space around the value": {"X": f" {TOKEN}"},
    "host": {"Host": TOKEN},
    "length": {"content-length": TOKEN},
    "encoding": {"Accept-Encoding": TOKEN},
    "idempotency key": {"idempotency-key": TOKEN},
    "proxy credentials": {"Proxy-Authorization": TOKEN},
    "twice": {"X-Key": TOKEN, "x-key": TOKEN},
}


@pytest.mark.parametrize("headers", WRONG_HEADERS.values(), ids=WRONG_HEADERS.keys())
def test_a_header_that_may_not_be_sent_is_refused_without_its_value(
    headers: dict[str, str],
) -> None:
    with pytest.raises(RequestHeadersError) as caught:
        RequestHeaders(headers)
    assert TOKEN not in str(caught.value)


def test_short_header_values_are_not_hunted_for(request_for: RequestFor) -> None:
    with serving(saying(output_data={"stage": "prod"})) as server:
        (attempt,) = ask(server, request_for(), headers=RequestHeaders({"X-Stage": "prod"}))
    assert attempt.response.output_data == {"stage": "prod"}


def test_a_url_that_the_policy_refuses_makes_no_adapter() -> None:
    with pytest.raises(OutboundRefusedError, match="which is loopback"):
        adapter_of("http://127.0.0.2/")


def test_the_adapter_names_itself() -> None:
    adapter = adapter_of("http://127.0.0.1/")
    assert isinstance(adapter, OracleAdapter)
    assert adapter.pin == "http@1"
