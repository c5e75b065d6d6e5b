"""The kit's HTTP server: `POST /` an envelope, `GET /healthz` to see who is there.

Made of the standard library, for a machine or a network of one's own: it knows no users and no
TLS. Whatever faces the world is in front of it.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import FrameType
from typing import NamedTuple

from theatre.construct_kit.envelopes import (
    MAX_QUESTION_BYTES,
    AddressError,
    QuestionError,
    read_question,
)
from theatre.construct_kit.served_construct import ServedConstruct, make_servable
from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.errors import ParseError

_METHODS = {"/": "POST", "/healthz": "GET"}
_LINGER_SECONDS = 2.0
_CHUNK_BYTES = 65536
_MOST_BYTES = 16 * 1024 * 1024


class Calls:
    """Stands between a server's threads and the construct: answers, remembers, counts.

    The latest final answers, 16 MiB of them, are kept by invocation id and question, so that a
    repeated call need not be paid for twice: every attempt of one call, and the call that a resumed
    run makes again, has the same invocation id. An error is not kept: a retry asks because it may
    pass.
    """

    def __init__(self, construct: ServedConstruct) -> None:
        self._construct = construct
        self._answers: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0
        self._under_way = 0
        # Guards all of the above, and tells who waits for the last call.
        self._changed = threading.Condition()

    def answer(self, raw: bytes) -> bytes:
        """Return the answer to an envelope; a final one from memory, the second time.

        Raises ParseError and QuestionError as `read_question`.
        """
        question = read_question(raw)
        asked = [question.construct_id, question.construct_version, question.input_data]
        key = question.invocation_id, canonical_sha256(asked)
        with self._changed:
            known = self._answers.get(key)
        if known is not None:
            return known
        answer = self._construct.answer(question)
        if answer.final:
            with self._changed:
                self._remember(key, answer.body)
        return answer.body

    def _remember(self, key: tuple[str, str], body: bytes) -> None:
        """Keep an answer; the oldest ones make room."""
        self._bytes += len(body) - len(self._answers.pop(key, b""))
        self._answers[key] = body
        while self._bytes > _MOST_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._bytes -= len(oldest)

    def health(self) -> JsonObject:
        """Return who answers here, and in which version."""
        return {
            "status": "ok",
            "construct_id": self._construct.construct_id,
            "construct_version": self._construct.version,
        }

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Count a call while it lasts, until its answer is sent."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def finish(self, *, within_seconds: float) -> None:
        """Wait until no call is under way, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, timeout=within_seconds)


class _Refused(NamedTuple):
    status: HTTPStatus
    reason: str


class RequestHandler(BaseHTTPRequestHandler):
    """One connection, and the requests that come over it.

    A refusal is a status and a JSON object `{"error": …}`, and ends the connection. Whatever is an
    envelope is answered with 200: that a construct fails is the envelope's matter, not HTTP's.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    # Longer than clients keep an idle connection, so that none is closed under a new request.
    timeout = 60

    def __init__(
        self,
        calls: Calls,
        request: socket.socket,
        client_address: object,
        server: socketserver.BaseServer,
    ) -> None:
        """Handle the whole connection, as `socketserver` expects of the constructor."""
        self._calls = calls
        super().__init__(request, client_address, server)

    def do_POST(self) -> None:
        """Answer an envelope."""
        refused = self._refused_route() or self._refused_body()
        if refused is not None:
            self._refuse(refused)
            return
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        with self._calls.track():
            try:
                answer = self._calls.answer(raw)
            except (ParseError, QuestionError) as error:
                self._refuse(_Refused(HTTPStatus.BAD_REQUEST, f"no envelope: {error}"))
            else:
                self._reply(HTTPStatus.OK, answer)

    def do_GET(self) -> None:
        """Answer a health check with the construct's id and version."""
        refused = self._refused_route()
        if refused is not None:
            self._refuse(refused)
            return
        self._reply(HTTPStatus.OK, json.dumps(self._calls.health()).encode())

    # No route has these methods; without them here `http.server` would not know them at all.
    do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815  # its names

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what `http.server` itself cannot read; it would answer in HTML."""
        status = HTTPStatus(code)
        self._refuse(_Refused(status, message or explain or status.phrase))

    def version_string(self) -> str:
        """Return the name of the server; the version of Python is not disclosed."""
        return "echelon-construct"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its own name for it
        """Log nothing: who asks hears the reason, and a run asks thousands of times."""

    def _refused_route(self) -> _Refused | None:
        path = self.path.partition("?")[0]
        if path not in _METHODS:
            return _Refused(
                HTTPStatus.NOT_FOUND, f"expected POST / or GET /healthz, got {path:.100}"
            )
        if self.command != _METHODS[path]:
            return _Refused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"expected {_METHODS[path]} {path}, got {self.command:.20}",
            )
        return None

    def _refused_body(self) -> _Refused | None:
        """Say what is wrong with a body before any of it is read."""
        # A web page may send other types across sites without asking first.
        if self.headers.get_content_type() != "application/json":
            return _Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"expected Content-Type application/json, got {self.headers['Content-Type']}",
            )
        length = self.headers["Content-Length"]
        # Two ways to state a length could hide a second request from a proxy (smuggling).
        if length is None or "Transfer-Encoding" in self.headers:
            return _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length, got none")
        if not (length.isascii() and length.isdecimal()):
            return _Refused(
                HTTPStatus.BAD_REQUEST, f"expected a number as Content-Length, got {length:.20}"
            )
        # By its digits first: int() of a very long number takes long.
        if len(length) > len(str(MAX_QUESTION_BYTES)) or int(length) > MAX_QUESTION_BYTES:
            return _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"expected at most {MAX_QUESTION_BYTES} bytes, got {length:.20}",
            )
        return None

    def _refuse(self, refused: _Refused) -> None:
        self.close_connection = True
        self._reply(refused.status, json.dumps({"error": refused.reason}).encode())
        self._take_in_the_rest()

    def _reply(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", _METHODS[self.path.partition("?")[0]])
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _take_in_the_rest(self) -> None:
        """Read on for a moment: the system drops a reply if its socket closes on unread data."""
        until = time.monotonic() + _LINGER_SECONDS
        self.connection.settimeout(_LINGER_SECONDS)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while time.monotonic() < until and self.connection.recv(_CHUNK_BYTES):
                pass


LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.2
_FIRST_DESCRIPTOR_PASSED = 3


def serve_http(function: Callable[..., object], host: str = LOOPBACK, port: int = 0) -> None:
    """Answer envelopes over HTTP until SIGTERM or SIGINT. Call it from the main thread.

    Port 0 takes a free one; the address is printed on stderr. The callable is called from
    several threads at once where several calls come at once. Calls that are under way when the
    signal comes get ten seconds. Raises AddressError where it cannot listen there, and
    ConstructVersionError as `make_servable`.
    """
    serve_construct(make_servable(function), host=host, port=port)


def serve_construct(
    construct: ServedConstruct,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    listener: socket.socket | None = None,
) -> None:
    """Serve until a signal comes, as `serve_http`, or on `listener`, which listens already."""
    calls = Calls(construct)
    with _Server(calls, host, port, listener) as server:
        _shut_down_on_signals(server)
        name = construct.construct_id or "(any id)"
        sys.stderr.write(f"construct {name} version {construct.version} listens on {server.url}\n")
        sys.stderr.flush()
        server.serve_forever(_POLL_SECONDS)
    calls.finish(within_seconds=_GRACE_SECONDS)


def inherited_socket() -> socket.socket:
    """Return the listening socket that this process was started with, as systemd hands it over.

    Raises AddressError where there is none.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        raise AddressError(
            "expected a listening socket as descriptor 3 (LISTEN_FDS=1, LISTEN_PID), got none"
        )
    return socket.socket(fileno=_FIRST_DESCRIPTOR_PASSED)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection; none of them keeps the process alive."""

    allow_reuse_address = True
    daemon_threads = True
    # As many as an engine connects at once: the system drops what does not fit.
    request_queue_size = 128

    def __init__(self, calls: Calls, host: str, port: int, listener: socket.socket | None) -> None:
        handler = functools.partial(RequestHandler, calls)
        if listener is not None:
            # The other constructor opens a socket, which an isolated program must not.
            socketserver.BaseServer.__init__(self, listener.getsockname(), handler)
            self.socket = listener
            return
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), handler)
        except (OSError, OverflowError) as error:
            raise AddressError(
                f"expected to listen on {host} port {port}, got: {error}; take another "
                "one, or a free one with --port 0"
            ) from error

    @property
    def url(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Report what went wrong in a connection, unless the client just closed it."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _shut_down_on_signals(server: _Server) -> None:
    def shut_down(_: int, __: FrameType | None) -> None:
        # It waits for the loop that this very thread runs.
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, shut_down)
