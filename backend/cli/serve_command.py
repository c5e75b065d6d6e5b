"""`echelon serve`: serves the HTTP interface until it is stopped."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
import uvicorn

from backend.api.http.connections import Connections
from backend.api.http.openapi import format_openapi
from backend.cli.database_work import end_on_refusal
from backend.logs import log_as_json
from backend.main import create_app
from backend.runtime import work
from backend.settings import Settings
from theatre.cli.exits import CommandEndedError, ExitCode, echo

# `echelon openapi`: the interface as a document.


@click.command()
def openapi() -> None:
    """Print the description of the HTTP interface, as docs/openapi.json has it."""
    # Nothing is opened for it: the application does that when it is served.
    click.echo(format_openapi(create_app(Settings(home=Path())).openapi()), nl=False)


_DRAIN_SECONDS = 30
_KEEP_ALIVE_SECONDS = 5
_BACKLOG = 128
"""The kernel keeps that many more connections until they are accepted."""

_CHUNK_BYTES = 4096
Opening = AbstractAsyncContextManager[Mapping[str, object] | None]


class AnnouncingServer(uvicorn.Server):
    """Sets `stopping` before it waits for open requests: some of these only wait, too.

    It opens and closes the application itself: what that raises ends `run`. uvicorn would log it.
    """

    def __init__(
        self, config: uvicorn.Config, *, opening: Opening, stopping: asyncio.Event
    ) -> None:
        super().__init__(config)
        self._opening, self._stopping = opening, stopping

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application, and take requests until a signal ends it."""
        with self.capture_signals():
            async with self._opening as self._opened:
                await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Give every request what was opened."""
        self.lifespan.state.update(self._opened or {})
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, let those at work end, end the application."""
        self._stopping.set()
        await super().shutdown(sockets)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--until-stdin-ends", is_flag=True, help="End with stdin, too: for a parent that may be killed."
)
def serve(host: str, port: int, *, until_stdin_ends: bool) -> None:
    """Serve the HTTP interface until SIGTERM or SIGINT; requests at work are finished first."""
    settings = end_on_refusal(Settings.from_environment)
    log_as_json(settings.log_level)
    stopping = asyncio.Event()
    app = create_app(settings, stopping=stopping)
    server = AnnouncingServer(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=Connections(settings).protocol,
            # Nothing here speaks WebSocket, and its handshake would leave the limits.
            ws="none",
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        ),
        opening=app.router.lifespan_context(app),
        stopping=stopping,
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        # The server drains, and then raises the signal again: a requested stop is no failure.
        signal.signal(ending, lambda *_: None)
    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    with contextlib.suppress(SystemExit):  # Its address is taken; the log says so.
        end_on_refusal(server.run)
    if not server.started:
        echo("error (service): expected the service to start, got what the log says", err=True)
        raise CommandEndedError(ExitCode.FAILURE)


def _end_with_stdin(server: uvicorn.Server) -> None:
    # The kernel closes a pipe with its last writer, however that one ended.
    while os.read(sys.stdin.fileno(), _CHUNK_BYTES):
        pass
    server.should_exit = True


# `echelon worker`: runs theatres until it is stopped.


@click.command()
def worker() -> None:
    """Run theatres until SIGTERM or SIGINT; what is under way then is handed over.

    Any number of these may work at the same time, on any machine with the same database and the
    same evidence store.
    """
    settings = end_on_refusal(Settings.from_environment)
    log_as_json(settings.log_level)
    end_on_refusal(lambda: asyncio.run(_run_workers(settings)))


async def _run_workers(settings: Settings) -> None:
    stop = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stop.set)
    await work(settings, stop)
