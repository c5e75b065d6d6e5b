"""A log and a witness served over real HTTP on loopback, for as long as a test needs them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from theatre.cli.witness_command import WitnessServer
from theatre.transparency.witness import Witness

HERE = ("127.0.0.1", 0)


@contextlib.asynccontextmanager
async def serving(server: ThreadingHTTPServer) -> AsyncIterator[str]:
    """Run a server on a thread; yield its URL."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()


class QuietFiles(SimpleHTTPRequestHandler):
    """Serves files, and writes nothing into what a test reads."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class
        """Log nothing."""


def files_below(folder: Path) -> ThreadingHTTPServer:
    """Return what serves a folder's files, as any web server does."""
    return ThreadingHTTPServer(HERE, partial(QuietFiles, directory=folder))


def witness_in(folder: Path, witness: Witness) -> WitnessServer:
    """Return a witness that keeps its checkpoints in a folder."""
    folder.mkdir(exist_ok=True)
    return WitnessServer(HERE, witness, folder)
