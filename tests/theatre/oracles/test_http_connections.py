"""The HTTP adapter and its connections: pooled, cancelled, closed, refused, encrypted."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from yarl import URL

from tests.theatre.oracles.http_asking import LOOPBACK, NOW, adapter_of, ask
from tests.theatre.oracles.http_misbehaviour import hang
from tests.theatre.oracles.loopback import (
    LoopbackServer,
    Received,
    Respond,
    envelope,
    honest,
    response,
    serving,
)
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    NOT_ISOLATED,
    REMOTE,
    Attempt,
    Isolation,
    OracleAdapter,
    OracleInvocationRequest,
)
from theatre.oracles import outbound_policy
from theatre.oracles.errors import (
    AdapterClosedError,
    AddressNotAllowedError,
    ConstructUnreachableError,
    OutboundRefusedError,
)
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.http_client import Connection, HttpClient
from theatre.oracles.outbound_policy import (
    Lookup,
    OutboundPolicy,
    connect_once,
    is_own_address,
    judged_lookup,
    system_lookup,
)

RequestFor = Callable[..., OracleInvocationRequest]


def test_a_connection_is_used_again(request_for: RequestFor) -> None:
    with serving(honest) as server:
        attempts = ask(server, *(request_for(seq) for seq in range(20)))
        assert [attempt.response.output_data for attempt in attempts] == [
            {"echo": {"seq": seq}} for seq in range(20)
        ]
        assert server.connections == 1


@pytest.mark.parametrize("name", ["X\r\nY", "X\nY", "X\0"])
def test_no_header_makes_a_line_of_its_own(name: str) -> None:
    async def session(url: URL) -> None:
        async with contextlib.aclosing(HttpClient(seconds=20)) as client:
            for headers in ({name: "z"}, {"X": name}):
                with pytest.raises(ValueError, match="without line breaks"):
                    await client.ask("GET", url, read=Connection.read, headers=headers)

    with serving(honest) as server:
        asyncio.run(session(URL(server.url)))
        assert server.connections == 0


def test_the_loop_of_the_service_asks_as_well(request_for: RequestFor) -> None:
    async def session(url: str) -> list[Attempt]:
        async with contextlib.aclosing(adapter_of(url)) as adapter:
            return [await adapter.invoke(request_for(seq)) for seq in range(3)]

    with serving(honest) as server:
        attempts = uvloop.run(session(server.url))
        assert server.is_left_alone()
        assert [attempt.response.output_data for attempt in attempts] == [
            {"echo": {"seq": seq}} for seq in range(3)
        ]
        assert server.connections == 1


def test_a_trailer_is_no_header(request_for: RequestFor) -> None:
    async def trail(request: Received, writer: asyncio.StreamWriter) -> None:
        body = envelope(request)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        end = b"\r\n0\r\nContent-Encoding: gzip\r\n\r\n"
        writer.write(head + b"%x\r\n" % len(body) + body + end)

    with serving(trail) as server:
        (attempt,) = ask(server, request_for(1))
    assert attempt.response.output_data == {"echo": {"seq": 1}}


def test_an_answer_to_no_question_is_not_taken_for_the_next_one(request_for: RequestFor) -> None:
    async def answer_twice(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request)) * 2)

    with serving(answer_twice) as server:
        first, second = ask(server, request_for(1), request_for(2))
    assert first.response.output_data == {"echo": {"seq": 1}}
    assert second.response.output_data in ({"echo": {"seq": 2}}, None)


def test_the_beginning_of_a_second_answer_is_not_taken_for_the_next_one(
    request_for: RequestFor,
) -> None:
    async def begin_again(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request)) + b"HTTP/1.1 200 OK\r\nContent-Le")

    with serving(begin_again) as server:
        attempts = ask(server, request_for(1), request_for(2))
        assert server.connections == 2
    assert [one.response.output_data for one in attempts] == [
        {"echo": {"seq": seq}} for seq in (1, 2)
    ]


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


async def hang_in_a_body_without_length(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n{}")
    await asyncio.Event().wait()


@pytest.mark.parametrize("respond", [hang, hang_in_a_body_without_length])
def test_closing_ends_a_call_that_is_under_way(respond: Respond, request_for: RequestFor) -> None:
    async def session(server: LoopbackServer) -> Attempt:
        adapter = adapter_of(server.url)
        call = asyncio.create_task(adapter.invoke(request_for()))
        assert await asyncio.to_thread(server.has_been_asked, times=1)
        # As long as the loop takes to read what was written.
        await connect_once(LOOPBACK, URL(server.url), lookup=system_lookup)
        await adapter.aclose()
        await adapter.aclose()
        with pytest.raises(AdapterClosedError):
            await adapter.invoke(request_for(2))
        return await call

    with serving(respond) as server:
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


def test_a_url_that_the_policy_refuses_makes_no_adapter() -> None:
    with pytest.raises(OutboundRefusedError, match="which is loopback"):
        adapter_of("http://127.0.0.2/")


def test_the_adapter_names_itself() -> None:
    adapter = adapter_of("http://127.0.0.1/")
    assert isinstance(adapter, OracleAdapter)
    assert adapter.pin == "http@1"


def check(adapter: HTTPOracleAdapter) -> None:
    """Ask an adapter whether anybody would answer, and close it."""

    async def session() -> None:
        try:
            await adapter.check_reachable()
        finally:
            await adapter.aclose()

    asyncio.run(session())


def found_at(*addresses: str) -> Lookup:
    async def lookup(_: str, __: int) -> list[str]:
        return list(addresses)

    return lookup


def test_a_check_connects_once_and_asks_nothing() -> None:
    with serving(honest) as server:
        check(adapter_of(server.url))
        assert server.has_been_connected(times=1)
        assert server.is_left_alone()
        assert (server.connections, server.received) == (1, [])


def test_a_check_goes_on_to_the_next_address_of_a_name() -> None:
    policy = OutboundPolicy(allow=("127.0.0.0/8",))
    lookup = found_at("127.0.0.2", "127.0.0.1")
    with serving(honest) as server:
        url = f"http://construct.example:{server.port}/"
        check(adapter_of(url, policy=policy, lookup=lookup))
        assert server.has_been_connected(times=1)
        assert server.is_left_alone()
        assert server.connections == 1


def test_a_check_says_that_nobody_listens() -> None:
    with serving(honest) as gone:
        pass
    message = f"expected http://127.0.0.1:{gone.port} to accept a connection, got: .*refused|failed"
    with pytest.raises(ConstructUnreachableError, match=message):
        check(adapter_of(gone.url))


def test_a_check_says_that_a_name_has_no_address() -> None:
    message = r"got: .*expected an address for construct\.example, got none"
    with pytest.raises(ConstructUnreachableError, match=message):
        check(adapter_of("http://construct.example/", lookup=found_at()))


def test_a_check_opens_no_connection_that_the_policy_refuses() -> None:
    with serving(honest) as server:
        url = f"http://construct.example:{server.port}/"
        lookup = found_at("127.0.0.1", "127.0.0.2")
        with pytest.raises(AddressNotAllowedError, match=r"got 127\.0\.0\.2, which is loopback"):
            check(adapter_of(url, lookup=lookup))
        assert server.connections == 0


def test_what_answers_from_an_address_of_this_machine_is_held_by_nothing() -> None:
    async def session(url: str) -> Isolation:
        adapter = adapter_of(url)
        try:
            return await adapter.probe_isolation([])
        finally:
            await adapter.aclose()

    with serving(hang) as server:
        assert asyncio.run(session(server.url)) == NOT_ISOLATED
    # Nobody answers there any more: it is not known to be elsewhere.
    assert asyncio.run(session(server.url)) == NOT_ISOLATED


@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        # Of which interface is not said: that it is another machine is not known.
        ("fe80::1", True),
    ],
)
def test_an_address_is_this_machines_own_where_a_socket_can_be_bound_to_it(
    address: str,
    is_own: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_own_address(address) is is_own


def test_a_service_that_was_elsewhere_is_not_connected_on_this_machine() -> None:
    async def session(url: URL) -> str:
        client = HttpClient(lookup=judged_lookup(LOOPBACK, is_refused=is_own_address), seconds=20)
        with pytest.raises(AddressNotAllowedError) as caught:
            await client.ask("GET", url, read=lambda answer: answer.read(0), headers={})
        await client.aclose()
        return str(caught.value)

    with serving(hang) as server:
        said = asyncio.run(session(URL(server.url)))
        assert "expected 127.0.0.1 to stay on another machine, got 127.0.0.1" in said
        assert server.received == []


def test_a_service_that_was_tried_elsewhere_is_never_called_on_this_machine(
    request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No test has a second machine: an address of this one stands for the other's.
    monkeypatch.setattr(outbound_policy, "is_own_address", lambda address: address != "127.0.0.2")
    addresses = iter(["127.0.0.2"])

    async def lookup(_: str, __: int) -> list[str]:
        return [next(addresses, "127.0.0.1")]

    async def session(port: int) -> tuple[Isolation, Attempt, Attempt]:
        policy = OutboundPolicy(allow=("127.0.0.0/8",))
        url = f"http://construct.example:{port}/"
        tried, untried = (adapter_of(url, policy=policy, lookup=lookup) for _ in range(2))
        try:
            found = await tried.probe_isolation([])
            return found, await tried.invoke(request_for(1)), await untried.invoke(request_for(2))
        finally:
            await tried.aclose()
            await untried.aclose()

    with serving(honest) as server, socket.create_server(("127.0.0.2", server.port)):
        found, refused, answered = asyncio.run(session(server.port))
        assert [one.envelope["input_data"] for one in server.received] == [{"seq": 2}]
    assert (found, refused.response.status, answered.response.status) == (
        REMOTE,
        InvocationStatus.ERROR,
        InvocationStatus.SUCCESS,
    )
    assert "construct.example to stay on another machine, got 127.0.0.1" in str(
        refused.response.error_detail
    )
