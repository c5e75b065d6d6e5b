"""The one HTTP/1.1 client: asyncio's connections and TLS, and the parser of httptools (llhttp).

It does what the calls of a run need and no more: connections are kept for a while, nothing is
redirected, unpacked, remembered or proxied, and who asks says which addresses may be connected.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from typing import Final, TypeVar, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from yarl import URL

from theatre.engine.errors import TheatreError
from theatre.oracles.outbound_policy import Lookup, connect_first, system_lookup

MAX_CONNECTIONS: Final = 100
# Shorter than the 5 s after which common servers close an idle connection: a call sent into
# the closing would fail for no reason.
_IDLE_SECONDS = 2.0
_MAX_HEAD_BYTES = 32 * 1024
_PIECE_BYTES = 16 * 1024
_FIRST_FINAL, _SWITCHING, _BODILESS = 200, 101, frozenset({204, 304})
_TARGET = re.compile(r"[\x21-\x7e]+")

T = TypeVar("T")


class NoResponseError(TheatreError):
    """There is no whole response.

    `reason` is `unreachable`, `tls-failure`, `disconnected` or `not-http`.
    """

    code = "no-response"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Connection(asyncio.Protocol):
    """One connection, and the response that comes over it: status, fields, and body as it comes."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._parser = HttpResponseParser(self)
        self._is_asked = False
        self._expect()

    def _expect(self) -> None:
        self.status = 0
        self.is_whole = False
        self.is_usable = False
        """Whether another request can be sent when this response is whole."""
        self._fields: list[tuple[bytes, bytes]] = []
        self._received = bytearray()
        self._head_bytes = 0
        self._error: NoResponseError | None = None
        self._arrival: asyncio.Future[None] | None = None

    async def send(self, request: bytes) -> None:
        """Send a request, and wait for the head of the response; raises NoResponseError."""
        if self.transport.is_closing():
            raise NoResponseError("the end of the connection", reason="disconnected")
        self._is_asked = True
        self._expect()
        self.transport.write(request)
        while not self.status:
            await self._wait()

    def values(self, name: str) -> list[str]:
        """Return the values of a field, `name` in lower case, each as it came."""
        wanted = name.encode()
        return [
            value.decode("utf-8", "backslashreplace")
            for field, value in self._fields
            if field.lower() == wanted
        ]

    def value(self, name: str) -> str | None:
        """Return the first of `values`, if there is one."""
        return next(iter(self.values(name)), None)

    async def read_some(self) -> bytes:
        """Return what came of the body, at least a byte before its end; raises NoResponseError."""
        while not self._received and not self.is_whole:
            await self._wait()
        some = bytes(self._received)
        self._received.clear()
        return some

    async def read(self, limit: int = sys.maxsize) -> bytes:
        """Return the body; of one with more than `limit` bytes the beginning, a little longer."""
        body = bytearray()
        while len(body) <= limit and (some := await self.read_some()):
            body += some
        return bytes(body)

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    def let_go(self, now: float) -> None:
        """Take note that nothing is asked any more."""
        self._is_asked = False
        self.idle_since = now

    def end(self, error: Exception | None) -> None:
        """Take note that nothing more will come."""
        framed = self.value("content-length") or self.value("transfer-encoding")
        if error is None and self.status and framed is None and self.status not in _BODILESS:
            self.is_whole = True
        elif self._error is None:
            said = str(error or "") or "the end of the connection"
            self._error = NoResponseError(said, reason="disconnected")
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # What asyncio brings.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        # Not asked for by `isinstance`: those of uvloop, the service's loop, are of its own class.
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so to the one who waits."""
        self.is_usable = False
        self.end(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; an answer to no question ends the connection."""
        if not self._is_asked:
            self.transport.abort()
            return
        try:
            # In pieces: a head that has no end is seen before much of it is kept.
            for start in range(0, len(data), _PIECE_BYTES):
                piece = data[start : start + _PIECE_BYTES]
                self._parser.feed_data(piece)
                self._head_bytes += 0 if self.status else len(piece)
                if self._head_bytes > _MAX_HEAD_BYTES:
                    self._fail(f"expected at most {_MAX_HEAD_BYTES} bytes of head, got more")
                    break
        except HttpParserUpgrade:
            # What follows is another protocol.
            self.is_whole, self.is_usable = True, False
        except HttpParserError as error:
            self._fail(str(error))
        self._wake()

    def _fail(self, said: str) -> None:
        self.is_usable = False
        self._error = NoResponseError(said, reason="not-http")

    # What the parser finds.

    def on_message_begin(self) -> None:
        """Use no connection again over which a second response to one request came."""
        self.is_usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field, but of a trailer, which comes when the head was judged."""
        if not self.status:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Keep the status, but of a preliminary response."""
        status = self._parser.get_status_code()
        if self.status == 0 and (status >= _FIRST_FINAL or status == _SWITCHING):
            self.status = status
        elif not self.status:
            self._fields.clear()
            self._head_bytes = 0

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        if not self.is_whole:
            self._received += data

    def on_message_complete(self) -> None:
        """Note the end of the response, but of a preliminary one."""
        if self.status and not self.is_whole:
            self.is_whole = True
            self.is_usable = self._parser.should_keep_alive()


class HttpClient:
    """Asks any number of servers; belongs to the event loop of its first request.

    `lookup` returns the addresses of a host that may be connected, and no other is; what it raises,
    but OSError, is raised. A request takes at most `seconds`, else it raises TimeoutError. Without
    `keeps_connections` each has a connection of its own.
    """

    def __init__(
        self,
        *,
        lookup: Lookup = system_lookup,
        seconds: float | None = None,
        keeps_connections: bool = True,
    ) -> None:
        self._lookup = lookup
        self._deadline = nullcontext if seconds is None else partial(asyncio.timeout, seconds)
        self._keeps_connections = keeps_connections
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: dict[URL, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._is_closed = False

    async def ask(
        self,
        method: str,
        url: URL,
        *,
        read: Callable[[Connection], Awaitable[T]],
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> T:
        """Send a request, and return what `read` makes of the response once its head is there.

        What `read` leaves unread is not waited for. It waits for nothing but the response: what
        comes meanwhile is kept. Raises NoResponseError, TimeoutError, and ValueError for what
        cannot stand in a head.
        """
        head = _head(method, url, headers, len(body))
        async with self._deadline(), self._places:
            connection = await self._connection(url)
            try:
                await connection.send(head + body)
                return await read(connection)
            finally:
                self._release(url, connection)

    async def aclose(self) -> None:
        """Close every connection; requests under way raise NoResponseError."""
        self._is_closed = True
        for connection in self._open:
            connection.end(ConnectionAbortedError("the client was closed"))
            connection.transport.abort()
        # What was aborted is closed in the next turn of the loop.
        await asyncio.sleep(0)

    async def _connection(self, url: URL) -> Connection:
        kept = self._idle.get(url.origin(), [])
        now = asyncio.get_running_loop().time()
        while kept:
            connection = kept.pop()
            if (
                now - connection.idle_since < _IDLE_SECONDS
                and not connection.transport.is_closing()
            ):
                return connection
            self._drop(connection)
        connection = await self._connect(url)
        self._open.add(connection)
        if self._is_closed:
            self._drop(connection)
        return connection

    async def _connect(self, url: URL) -> Connection:
        host, port = url.raw_host or "", url.port or 0
        try:
            # Without a name the system's resolver means this machine.
            if not host:
                raise OSError(f"expected a URL with a host, got {url}")  # noqa: TRY301  # as below
            addresses = await self._lookup(host, port)
            tls = _tls() if url.scheme == "https" else None
            _, _, connection = await connect_first(addresses, port, Connection, tls=tls, host=host)
        except ssl.SSLError as error:
            raise NoResponseError(str(error), reason="tls-failure") from error
        except (OSError, UnicodeError) as error:
            raise NoResponseError(str(error), reason="unreachable") from error
        return connection

    def _release(self, url: URL, connection: Connection) -> None:
        if connection.is_usable and self._keeps_connections and not self._is_closed:
            connection.let_go(asyncio.get_running_loop().time())
            self._idle.setdefault(url.origin(), []).append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        connection.transport.abort()
        self._open.discard(connection)


@cache
def _tls() -> ssl.SSLContext:
    """Return what servers are judged by: the certificate authorities of the system."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _head(method: str, url: URL, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines.append(f"Content-Length: {length}")
    head = "\r\n".join(lines)
    # A value with a line break would be a header, or a request, of its own.
    is_plain = head.count("\n") == head.count("\r") == len(lines) - 1 and "\0" not in head
    if not is_plain or not _TARGET.fullmatch(url.raw_path_qs):
        raise ValueError(f"expected a request without line breaks to {url.origin()}, got one")
    return f"{head}\r\n\r\n".encode()
