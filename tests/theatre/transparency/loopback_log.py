"""A log and a witness served over real HTTP on loopback, for as long as a test needs them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from theatre.cli.witness_command import WitnessApp
from theatre.transparency.witness import Witness


@contextlib.asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free port; yield its URL."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def files_below(folder: Path) -> web.Application:
    """Return what serves a folder's files, as any web server does."""
    application = web.Application()
    application.router.add_static("/", folder)
    return application


def witness_in(folder: Path, witness: Witness) -> web.Application:
    """Return a witness that keeps its checkpoints in a folder."""
    folder.mkdir(exist_ok=True)
    return WitnessApp(witness, folder).application()
