"""The kit's HTTP server: `POST /` an envelope, `GET /healthz` to see who is there.

Made of the standard library, for a machine or a network of one's own: it knows no users and no
TLS. Whatever faces the world is in front of it.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from types import FrameType

from theatre.construct_kit.calls import Calls
from theatre.construct_kit.errors import AddressError
from theatre.construct_kit.http_requests import RequestHandler
from theatre.construct_kit.served_construct import ServedConstruct, make_servable

LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.2
_FIRST_DESCRIPTOR_PASSED = 3


def serve_http(function: Callable[..., object], host: str = LOOPBACK, port: int = 0) -> None:
    """Answer envelopes over HTTP until SIGTERM or SIGINT. Call it from the main thread.

    Port 0 takes a free one; the address is printed on stderr. The callable is called from
    several threads at once where several calls come at once. Calls that are under way when the
    signal comes get ten seconds. Raises AddressError where it cannot listen there, and
    ConstructVersionError as `served`.
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
            raise AddressError(f"expected to listen on {host} port {port}, got: {error}") from error

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
