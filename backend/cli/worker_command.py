"""`echelon worker`: runs theatres until it is stopped."""

from __future__ import annotations

import asyncio
import signal

import click

from backend.cli.refusals import end_on_refusal
from backend.logs import log_as_json
from backend.runtime import work
from backend.settings import Settings


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
