"""Slow heads, endless heads, and more connections than there are descriptors."""

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from backend.api.http.connections import RESERVED_FILES, Connections, most_connections
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.serving import EventServer
from tests.backend.test_serve import serving
from tests.theatre.echelon_process import until

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "


async def _echo(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/held":
        await receive()
        await receive()
        return
    if scope["path"] == "/large":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            body = b"x" * 65536
            await send({"type": "http.response.body", "body": body, "more_body": True})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


@contextlib.contextmanager
def limited(**changes: Any) -> Iterator[int]:  # noqa: ANN401 - settings
    """Serve within limits, in a thread; yield the port."""
    limits = Connections(Settings(**changes))
    config = uvicorn.Config(
        _echo, port=0, lifespan="off", log_config=None, http=limits.protocol, ws="none"
    )
    server = EventServer(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the start of the server")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.stop()
        thread.join()


def opened(port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(sent)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Return all that comes until the other side has ended it."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            got += piece
    return got


def test_a_head_that_is_late_ends_its_connection_and_no_other() -> None:
    with limited(head_seconds=0.3) as port, opened(port, HALF) as slow, opened(port, b"") as mute:
        with opened(port, REQUEST) as quick:
            assert quick.recv(12) == b"HTTP/1.1 200"
        assert answer(slow).startswith(b"HTTP/1.1 408")
        assert answer(mute).startswith(b"HTTP/1.1 408")
        # The next head has its own deadline, also where the first was in time.
        with opened(port, REQUEST + HALF) as again:
            got = answer(again)
            assert (got[:12], b"HTTP/1.1 408" in got) == (b"HTTP/1.1 200", True)
        # A request at work has no head to be late with.
        with opened(port, REQUEST.replace(b"/", b"/held", 1)) as held:
            held.settimeout(0.6)
            with pytest.raises(TimeoutError):
                held.recv(1)


def test_a_head_without_an_end_is_refused() -> None:
    with limited() as port, opened(port, HALF) as endless:
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                endless.sendall(b"x" * 65536)
        with contextlib.suppress(ConnectionResetError):
            assert endless.recv(12) in {b"HTTP/1.1 431", b""}
        with opened(port, REQUEST) as quick:
            assert quick.recv(12) == b"HTTP/1.1 200"


def test_who_has_waited_longest_makes_room_and_who_works_does_not() -> None:
    with limited(connections=8) as port, contextlib.ExitStack() as stack:
        held = [stack.enter_context(opened(port, b"GET /held HTTP/1.1\r\n\r\n")) for _ in range(7)]
        slow = [stack.enter_context(opened(port, HALF)) for _ in range(3)]
        assert [answer(one) for one in slow[:2]] == [b"", b""]
        with opened(port, REQUEST) as quick:
            assert quick.recv(12) == b"HTTP/1.1 200"
        held.append(stack.enter_context(opened(port, b"GET /held HTTP/1.1\r\n\r\n")))
        with opened(port, REQUEST) as refused:
            assert answer(refused).startswith(b"HTTP/1.1 503")
        held.pop().close()
        until(lambda: _is_answered(port), "the connection that has ended to be out of the count")


def _is_answered(port: int) -> bool:
    with opened(port, REQUEST) as one:
        return one.recv(12) == b"HTTP/1.1 200"


def test_who_reads_no_answer_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.api.http.connections._STALLED_SECONDS", 0.2)
    with limited(connections=8) as port, contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(opened(port, b"GET /large HTTP/1.1\r\n\r\n"))
        until(lambda: _is_answered(port), "those that do not read to be gone")


def test_as_many_connections_as_files_allow() -> None:
    usual = Settings(connections=1000)
    assert most_connections(usual, open_files=256) == 256 - RESERVED_FILES
    assert most_connections(usual, open_files=100_000) == 1000
    assert most_connections(usual, open_files=resource.RLIM_INFINITY) == 1000
    assert most_connections(usual, open_files=10) == 8


@contextlib.contextmanager
def few_files(soft: int) -> Iterator[None]:
    """Give processes that begin meanwhile this limit of descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_real_service_answers_behind_300_slow_heads_at_256_descriptors(
    tmp_path: Path, database: Database
) -> None:
    own = {"ECHELON_DATABASE_URL": database.application}
    with contextlib.ExitStack() as stack:
        with few_files(256):
            service = stack.enter_context(serving(tmp_path / "home", **own))
            client = service.client
        ada = client.registered("ada")
        slow = [stack.enter_context(opened(client.port, HALF)) for _ in range(300)]
        for _ in range(20):
            assert client.get("/readyz").document["status"] == "ready"
            assert ada.get("/api/v1/keys").status == 200
            assert client.get("/problems/not-found").status == 200
            assert client.get("/", Accept="text/html").status == 200
            slow += [stack.enter_context(opened(client.port, HALF)) for _ in range(5)]
        assert service.end() == 0
        assert not [line for line in service.lines if line["level"] in {"warning", "error"}]
