"""Which runs of one process keep each other company, and which has it to itself (docs/adr/0130)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


class ProcessHold:
    """One run's time in the process."""


class ReadersWriterLock:
    """Lets runs in. Nobody waits for long for one that is alone: others are turned away."""

    def __init__(self, *, seconds: float) -> None:
        """Turn away who comes to a process that somebody has alone, after so many seconds."""
        self._seconds = seconds
        self._inside: set[ProcessHold] = set()
        self._alone: ProcessHold | None = None
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def stay(self, *, alone: bool) -> AsyncIterator[ProcessHold | None]:
        """Yield None where somebody else has the process alone, or is about to.

        Who wants to be `alone` waits here until the others have left, as `must_leave` tells them.
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
        """Have a run that was alone be one among others from now on."""
        if self._alone is stay:
            self._alone = None
            self._changed.set()

    def must_leave(self, stay: ProcessHold) -> bool:
        """Tell whether somebody else waits for this run to stop."""
        return self._alone is not None and self._alone is not stay

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
