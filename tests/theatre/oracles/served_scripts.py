"""Constructs that serve HTTP on a port they are given, and the adapter that starts them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.served import ServedOracleAdapter

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
VERSION = "c0ffee" + "0" * 58

# Follows the prelude of the scripts that speak on stdin: `envelope` and the imports are there.
SERVING = """
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])

def serve(respond):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps(respond(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    Server(("127.0.0.1", PORT), Handler).serve_forever()

"""


def served_adapter(
    write_script: Callable[[str], Path],
    body: str = "",
    *,
    argv: list[str] | None = None,
    version: Callable[[], str] = lambda: VERSION,
    limits: ProcessLimits | None = None,
    start_seconds: float = 30.0,
) -> ServedOracleAdapter:
    """Return an adapter over a script; its clocks stand still, so that attempts compare whole."""
    script = write_script(SERVING + textwrap.dedent(body))
    return ServedOracleAdapter(
        argv or [sys.executable, str(script), "{port}"],
        version=version,
        limits=limits or ProcessLimits(),
        start_seconds=start_seconds,
        clock=lambda: NOW,
        monotonic=lambda: 0.0,
    )
