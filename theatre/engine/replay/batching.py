"""Groups finished episodes into durable batches: full, or old enough, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from theatre.engine.clock import Sleep

_T = TypeVar("_T")


class BatchWriter(Generic[_T]):
    """Collects items and flushes them; on leaving, also after an error, flushes the rest.

    A flush that began ends, however often its caller is cancelled. After one that failed
    nothing more is written. A `put` while a batch is being written waits for it: with
    n callers, no more than `size` + n - 1 items are ever in memory only.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[_T]], Awaitable[None]],
        *,
        size: int,
        max_age: float,
        sleep: Sleep,
    ) -> None:
        self._flush = flush
        self._size = size
        self._max_age = max_age
        self._sleep = sleep
        self._pending: list[_T] = []
        self._writing = asyncio.Lock()
        self._broken = False
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
        """Write what is left; raises what this write, or one in the background, raised."""
        await _finish(asyncio.ensure_future(self._close()))

    async def put(self, item: _T) -> None:
        """Add `item`; raises what an earlier write in the background raised."""
        self._pending.append(item)
        if self._timer is not None and self._timer.done():
            timer, self._timer = self._timer, None
            timer.result()
        # The lock makes writes sequential: the chain has one head.
        async with self._writing:
            if len(self._pending) >= self._size:
                await self._write_pending()
        if self._timer is None and self._pending:
            self._timer = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await self._sleep(self._max_age)
        await self._write()

    async def _close(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            # A write that it has begun ends first.
            timer.cancel()
            await asyncio.wait([timer])
            if not timer.cancelled():
                timer.result()
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            await self._write_pending()

    async def _write_pending(self) -> None:
        batch, self._pending = self._pending, []
        if not batch or self._broken:
            return
        write = asyncio.ensure_future(self._flush(batch))
        try:
            await _finish(write)
        finally:
            self._broken = write.cancelled() or write.exception() is not None


async def _finish(work: asyncio.Future[None]) -> None:
    """Wait until `work` has ended; only then let a cancellation through."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    work.result()
    if cancelled is not None:
        raise cancelled
