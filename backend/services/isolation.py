"""A readers-writer lock over one process: many runs, or one suspect alone (docs/adr/0130)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


class ProcessHold:
    """One run's hold of the lock."""


class ReadersWriterLock:
    """Admits runs. While one run is alone, others are refused after `seconds`."""

    def __init__(self, *, seconds: float) -> None:
        """Refuse a run after so many seconds while another one is alone."""
        self._seconds = seconds
        self._inside: set[ProcessHold] = set()
        self._alone: ProcessHold | None = None
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def stay(self, *, alone: bool) -> AsyncIterator[ProcessHold | None]:
        """Yield None where another run has the process alone, or is about to.

        A run that must be `alone` waits until the others have left, as `must_leave` says.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._until(lambda: self._alone is None)
        if self._alone is not None:
            yield None
            return
        stay = ProcessHold()
        self._inside.add(stay)
        try:
            if alone:
                self._alone = stay
                await self._until(lambda: len(self._inside) == 1)
            yield stay
        finally:
            self._inside.discard(stay)
            self.downgrade(stay)
            self._changed.set()

    def downgrade(self, stay: ProcessHold) -> None:
        """Turn the exclusive hold of a run into a shared one."""
        if self._alone is stay:
            self._alone = None
            self._changed.set()

    def must_leave(self, stay: ProcessHold) -> bool:
        """Tell whether another run waits for this one to stop."""
        return self._alone is not None and self._alone is not stay

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
