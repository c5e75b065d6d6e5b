"""Groups finished episodes into durable batches: full, or old enough, whichever comes first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from theatre.engine.clock import Sleep
from theatre.engine.models import EpisodeResult

Flush = Callable[[Sequence[EpisodeResult]], Awaitable[None]]


class BatchWriter:
    """Collects results and flushes them; on leaving, also after an error, flushes the rest."""

    def __init__(self, flush: Flush, *, size: int, max_age: float, sleep: Sleep) -> None:
        self._flush = flush
        self._size = size
        self._max_age = max_age
        self._sleep = sleep
        self._pending: list[EpisodeResult] = []
        self._writing = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start empty."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what is left: an interrupted run loses nothing that was answered."""
        timer, self._timer = self._timer, None
        if timer is not None:
            # Under the lock the timer can only be waiting: no write is ever cut off.
            async with self._writing:
                timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await timer
        await self._write()

    async def put(self, result: EpisodeResult) -> None:
        """Add `result`; raises what an earlier write in the background raised."""
        self._pending.append(result)
        if len(self._pending) >= self._size:
            await self._write()
        if self._timer is not None and self._timer.done():
            timer, self._timer = self._timer, None
            timer.result()
        if self._timer is None and self._pending:
            self._timer = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await self._sleep(self._max_age)
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            batch, self._pending = self._pending, []
            if batch:
                await _finish(asyncio.ensure_future(self._flush(batch)))


async def _finish(write: asyncio.Future[None]) -> None:
    """Wait for a write to end, even when cancelled: the lock must outlast it."""
    try:
        await asyncio.shield(write)
    except asyncio.CancelledError:
        await write
        raise
