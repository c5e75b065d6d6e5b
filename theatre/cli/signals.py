"""Signals that end a command as Ctrl-C does: what is in is kept, what was started is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def cancel_on_signal(number: signal.Signals) -> Iterator[None]:
    """Let a signal cancel the running task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
