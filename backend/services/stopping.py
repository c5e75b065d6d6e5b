"""Waits that end when the service stops."""

from __future__ import annotations

import asyncio

from backend.jobs.announcements import ChangeSignal


async def wait_unless_stopping(
    stopping: asyncio.Event, changes: ChangeSignal, seconds: float
) -> bool:
    """Wait for a change or the service's stop, at most `seconds`; tell whether it stops."""
    waiting = [asyncio.create_task(changes.wait(seconds)), asyncio.create_task(stopping.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
    return stopping.is_set()
