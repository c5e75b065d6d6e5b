"""Stands between the evidence store and its server: notes what is asked, and breaks off at will.

Everything is passed on as it came, with its signature. What is not let through ends as it would if
the server were gone: the connection is closed without an answer.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Judge = Callable[[str, str], bool]
"""Tells by method and path whether a request is let through; asked for one at a time."""


class StoreRelay:
    """A relay that runs; `port` is where the store is to look for its server."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.requests: list[tuple[str, str]] = []
        """What was let through, by method and path."""
        self.judge: Judge = lambda *_: True
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.port: int = self._http.server_address[1]

    def lets_through(self, method: str, path: str) -> bool:
        with self._lock:
            through = self.judge(method, path)
            if through:
                self.requests.append((method, path))
            return through

    def put(self) -> list[str]:
        """Return the keys of what was sent, below the bucket, in no order."""
        return [path.split("/", 2)[2] for method, path in self.requests if method == "PUT"]

    @contextlib.contextmanager
    def running(self) -> Iterator[StoreRelay]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            thread.join()
            self._http.server_close()


def _handler_of(relay: StoreRelay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def pass_on(self) -> None:
            announced = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(announced)
            self.close_connection = True
            if len(body) < announced:
                return
            if not relay.lets_through(self.command, self.path.partition("?")[0]):
                return
            server = http.client.HTTPConnection("127.0.0.1", relay.server_port, timeout=60)
            # Neither a server nor a client that is gone has to be told of.
            with (
                contextlib.closing(server),
                contextlib.suppress(OSError, http.client.HTTPException),
            ):
                server.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body or None)
                answer = server.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 - the base class's

        def log_message(self, *_: Any) -> None:  # noqa: ANN401 - parts of a message
            """Say nothing."""

    return Handler
