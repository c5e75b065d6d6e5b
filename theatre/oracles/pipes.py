"""Waiting for file descriptors on the event loop, and a bounded reader of complaints."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Sequence

CHUNK_BYTES = 64 * 1024


async def ready(*, readers: Sequence[int] = (), writers: Sequence[int] = ()) -> None:
    """Return as soon as one of `readers` can be read or one of `writers` written.

    No other waiter may use the same descriptor in the same direction.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    for descriptor in readers:
        loop.add_reader(descriptor, wake)
    for descriptor in writers:
        loop.add_writer(descriptor, wake)
    try:
        await woken
    finally:
        for descriptor in readers:
            loop.remove_reader(descriptor)
        for descriptor in writers:
            loop.remove_writer(descriptor)


def is_ready(descriptor: int) -> bool:
    """Return whether `descriptor` can be read now, without waiting."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


def read_now(descriptor: int) -> bytes | None:
    """Return what a non-blocking `descriptor` holds, at most 64 KiB.

    None where it holds nothing yet, and empty bytes at its end.
    """
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None


class ComplaintPipe:
    """Drains a construct's stderr while it lives and keeps the last `limit` bytes.

    Drained all the time, so that a construct is never stopped by its own complaints.
    """

    def __init__(self, descriptor: int, *, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._tail = bytearray()
        self._cut = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._drain)

    def take(self) -> str:
        """Return what came since the last time, with a note of what was cut in front."""
        self._drain()
        note = f"[{self._cut} bytes cut]\n" if self._cut else ""
        text = note + self._tail.decode("utf-8", "replace")
        self._tail.clear()
        self._cut = 0
        return text

    def stop(self) -> None:
        """Drain no longer; the descriptor may be closed after that."""
        self._loop.remove_reader(self._descriptor)

    def _drain(self) -> None:
        chunk = read_now(self._descriptor)
        if chunk == b"":
            self.stop()
        elif chunk is not None:
            self._tail += chunk
            excess = max(0, len(self._tail) - self._limit)
            del self._tail[:excess]
            self._cut += excess
