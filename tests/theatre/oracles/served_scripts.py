"""Constructs that serve HTTP on a port they are given, and the adapter that starts them."""

import sys
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path

from theatre.oracles.construct_files import BoundProgram
from theatre.oracles.isolation.means import Reach
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


def unbound(
    argv: Sequence[str], *versions: str, reading: Sequence[Path] = ()
) -> Callable[[], BoundProgram]:
    """Return what starts a script where it lies, each start under the next of `versions`.

    It can read the files that argv names, and `reading`.
    """
    coming = chain(versions, repeat(versions[-1]))
    named = [Path(argument) for argument in argv if Path(argument).is_file()]
    seen = tuple({*reading, *(path for path in named if path.suffix == ".py")})
    return lambda: BoundProgram(argv=tuple(argv), version=next(coming), reading=seen)


def served_adapter(
    write_script: Callable[[str], Path],
    body: str = "",
    *,
    argv: list[str] | None = None,
    versions: tuple[str, ...] = (VERSION,),
    limits: ProcessLimits | None = None,
    start_seconds: float = 30.0,
) -> ServedOracleAdapter:
    """Return an adapter over a script; its clocks stand still, so that attempts compare whole."""
    script = write_script(SERVING + textwrap.dedent(body))
    return ServedOracleAdapter(
        unbound(argv or [sys.executable, str(script), "{port}"], *versions),
        limits=limits or ProcessLimits(),
        start_seconds=start_seconds,
        reach=Reach(network=True),
        clock=lambda: NOW,
        monotonic=lambda: 0.0,
    )
