"""`echelon serve`: serves the HTTP interface until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading

import click
import uvicorn

from backend.cli.refusals import end_on_refusal
from backend.logs import log_as_json
from backend.main import create_app
from backend.settings import Settings
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo

_DRAIN_SECONDS = 30
_KEEP_ALIVE_SECONDS = 5
_CHUNK_BYTES = 4096


class AnnouncingServer(uvicorn.Server):
    """Sets `stopping` before it waits for open requests: some of these only wait, too."""

    def __init__(self, config: uvicorn.Config, *, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, let those at work end, end the application."""
        self._stopping.set()
        await super().shutdown(sockets)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    help="End with stdin, too: for a parent that may be killed.",
)
def serve(host: str, port: int, *, until_stdin_ends: bool) -> None:
    """Serve the HTTP interface until SIGTERM or SIGINT; requests at work are finished first."""
    settings = end_on_refusal(Settings.from_environment)
    log_as_json(settings.log_level)
    stopping = asyncio.Event()
    server = AnnouncingServer(
        uvicorn.Config(
            create_app(settings, stopping=stopping),
            host=host,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        ),
        stopping=stopping,
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        # The server drains, and then raises the signal again: a requested stop is no failure.
        signal.signal(ending, lambda *_: None)
    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    with contextlib.suppress(SystemExit):  # A failed start; the log has the reason.
        server.run()
    if not server.started:
        echo("error (service): expected the service to start, got what the log says", err=True)
        raise CommandEndedError(ExitCode.FAILURE)


def _end_with_stdin(server: uvicorn.Server) -> None:
    # The kernel closes a pipe with its last writer, however that one ended.
    while os.read(sys.stdin.fileno(), _CHUNK_BYTES):
        pass
    server.should_exit = True
