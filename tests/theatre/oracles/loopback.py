"""Constructs behind HTTP for the adapter tests: real servers on loopback, written on streams."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

_PATIENCE_SECONDS = 60.0
_TLS_HANDSHAKE = b"\x16"


@dataclass(frozen=True, slots=True)
class Received:
    """One HTTP request as a server read it; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


Respond = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


class WatchedReader(asyncio.StreamReader):
    """Knows when the client has gone while nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


class LoopbackServer:
    """A construct behind HTTP: a real server, on a thread and an event loop of its own.

    `respond` writes what it likes for each request; a connection stays open until it closes the
    writer or the client goes away.
    """

    def __init__(
        self,
        respond: Respond,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.connections = 0
        self.received: list[Received] = []
        self._respond = respond
        self._tls = tls
        self._open = 0
        self._failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._listening = threading.Event()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/invoke"

    def start(self) -> None:
        self._thread.start()
        assert self._listening.wait(_PATIENCE_SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        assert self._failures == []

    def has_been_asked(self, *, times: int) -> bool:
        """Wait until so many requests have come; give up after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.received) >= times, _PATIENCE_SECONDS)

    def has_been_connected(self, *, times: int) -> bool:
        """Wait until so many connections have come; give up after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: self.connections >= times, _PATIENCE_SECONDS)

    def is_left_alone(self) -> bool:
        """Wait until no client is connected any more; give up after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open == 0, _PATIENCE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(self._protocol, self.host, self.port, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        # What was accepted in this very turn gets its conversation in the turns that follow, and
        # only of a server that is open: else nothing would close its socket.
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        conversations = asyncio.all_tasks() - {asyncio.current_task()}
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(WatchedReader(), self._accept)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, WatchedReader)
        with self._changed:
            self.connections += 1
            self._open += 1
            self._changed.notify_all()
        try:
            await self._converse(reader, writer)
        finally:
            writer.close()
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    async def _converse(self, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        while (received := await read_request(reader, writer)) is not None:
            with self._changed:
                self.received.append(received)
                self._changed.notify_all()
            answer = asyncio.ensure_future(self._answer(received, writer))
            gone = asyncio.ensure_future(reader.ended.wait())
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            answer.cancel()
            gone.cancel()
            if gone.done() or writer.is_closing():
                return

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        try:
            await self._respond(received, writer)
        except ConnectionError:
            return
        except Exception as error:
            self._failures.append(error)
            raise


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Received | None:
    """Return the next request of a connection, None at its end."""
    try:
        first = await reader.readexactly(1)
        if first == _TLS_HANDSHAKE:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (f.split(": ", 1) for f in fields)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Received(line, headers, body)


@contextlib.contextmanager
def serving(
    respond: Respond, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[LoopbackServer]:
    """Run a server; it has stopped, with every conversation, when the block ends."""
    server = LoopbackServer(respond, host=host, port=port, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def response(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole response; `headers` are further lines, each with its CRLF."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


def envelope(request: Received, **members: Any) -> bytes:  # noqa: ANN401 - members of JSON
    """Return the answer of an honest construct, with `members` over it."""
    sent = request.envelope
    return json.dumps(
        {
            "invocation_id": sent["invocation_id"],
            "construct_id": sent["construct_id"],
            "construct_version": sent["construct_version"],
            "status": "success",
            "output_data": {"echo": sent["input_data"]},
            **members,
        }
    ).encode()


async def honest(request: Received, writer: asyncio.StreamWriter) -> None:
    """Echo the input, and keep the connection."""
    writer.write(response(envelope(request)))
