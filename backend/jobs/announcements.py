"""Announcements of changed theatres and of queued log entries, from the database to every process.

A trigger sends the id of each theatre that a committed transaction changed, and LOG_QUEUE where it
has queued entries of the transparency log. One connection of a
process listens; where it is lost, every waiting part looks once, and the process listens again.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Self

import psycopg

from backend.database.sessions import listening_connection

LOG_QUEUE = "queue"
"""What is subscribed to instead of a theatre's id."""
_LISTEN = "LISTEN echelon_theatres; LISTEN echelon_log"
_CHECK_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Do what has no end in a task of its own, until the context is left."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class ChangeSignal:
    """Signals changes of one theatre to one waiting part."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """End the wait."""
        self._changed.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a change since the last wait ended, at most `seconds`; tell whether one came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        has_changed = self._changed.is_set()
        self._changed.clear()
        return has_changed


class ChangeListener:
    """Listens while its context is open."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiting: defaultdict[str, set[ChangeSignal]] = defaultdict(set)
        # Log the first failure of an outage, not each retry.
        self._is_listening = True

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[Self]:
        """Listen; a database that is away is asked again until it is back."""
        async with running(self._listen()):
            yield self

    @contextlib.contextmanager
    def subscribe(self, theatre_id: str) -> Iterator[ChangeSignal]:
        """Yield the signal of a theatre or of LOG_QUEUE: read it once this has begun, then wait."""
        changes = ChangeSignal()
        self._waiting[theatre_id].add(changes)
        try:
            yield changes
        finally:
            self._waiting[theatre_id].discard(changes)
            if not self._waiting[theatre_id]:
                del self._waiting[theatre_id]

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (OSError, psycopg.Error) as error:
                if self._is_listening:
                    _log.warning("the connection for announcements is lost", exc_info=error)
                self._is_listening = False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen_once(self) -> None:
        async with await listening_connection(self._address) as connection:
            await connection.execute(_LISTEN)
            self._is_listening = True
            # Changes while no connection listened were missed: all waiting parts must look once.
            for theatre_id in list(self._waiting):
                self._notify(theatre_id)
            while True:
                async for heard in connection.notifies(timeout=_CHECK_SECONDS):
                    self._notify(heard.payload)
                # A dead connection would stay silent for ever: ask it now and then.
                await connection.execute("SELECT 1")

    def _notify(self, theatre_id: str) -> None:
        for changes in self._waiting.get(theatre_id, ()):
            changes.notify()
