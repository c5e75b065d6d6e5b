"""Which runs of one process keep each other company, and which has it to itself (docs/adr/0130)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Stay:
    """One run's time in the process."""


class Isolation:
    """Lets runs in. One that asks to be alone is waited for by nobody: others come back later."""

    def __init__(self) -> None:
        self._inside: set[Stay] = set()
        self._alone: Stay | None = None
        self._somebody_left = asyncio.Event()

    @contextlib.asynccontextmanager
    async def stay(self, *, alone: bool) -> AsyncIterator[Stay | None]:
        """Yield None where somebody else has the process alone, or is about to.

        Who wants to be `alone` waits here until the others have left, as `is_to_leave` tells them.
        """
        if self._alone is not None:
            yield None
            return
        stay = Stay()
        self._inside.add(stay)
        try:
            if alone:
                self._alone = stay
                await self._until_others_left()
            yield stay
        finally:
            self._inside.discard(stay)
            self._somebody_left.set()
            self.let_others_in(stay)

    def let_others_in(self, stay: Stay) -> None:
        """Have a run that was alone be one among others from now on."""
        if self._alone is stay:
            self._alone = None

    def is_to_leave(self, stay: Stay) -> bool:
        """Tell whether somebody else waits for this run to stop."""
        return self._alone is not None and self._alone is not stay

    async def _until_others_left(self) -> None:
        while len(self._inside) > 1:
            self._somebody_left.clear()
            await self._somebody_left.wait()
