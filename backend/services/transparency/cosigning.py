"""Asks the witnesses of the service's policy to cosign each checkpoint, next to its writer.

Nothing waits for a witness: one that is away is missing on the checkpoints of that time, and named
once in the service's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from backend.repositories.transparency_log import PostgresLog
from theatre.api.log_network import gather_cosignatures
from theatre.transparency.log import LogWriter
from theatre.transparency.policy import Policy

_log = logging.getLogger(__name__)


class Cosigning:
    """What a log's writer and the questions to its witnesses share."""

    def __init__(self, store: PostgresLog, writer: LogWriter, policy: Policy) -> None:
        self._store = store
        self._writer = writer
        self._witnesses = [one for one in policy.witnesses.values() if one.url is not None]
        self._signed = asyncio.Event()
        self._missing: list[str] = []
        self.turn = asyncio.Lock()
        """Who signs or adds cosignatures holds it."""

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[asyncio.Task[None]]:
        """Ask until the context is left.

        The task that is yielded ends with LogForkError where a witness has seen another tree.
        """
        task = asyncio.create_task(self._ask_for_ever())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def note(self) -> None:
        """Have the last checkpoint cosigned."""
        self._signed.set()

    async def _ask_for_ever(self) -> None:
        while True:
            await self._signed.wait()
            self._signed.clear()
            checkpoint = self._writer.checkpoint
            lines, missing = await gather_cosignatures(self._store, checkpoint, self._witnesses)
            if missing != self._missing:
                _log.warning("witnesses that did not cosign", extra={"fields": {"detail": missing}})
            self._missing = missing
            async with self.turn:
                # A later one is asked about next.
                if lines and self._writer.checkpoint == checkpoint:
                    await self._writer.add_cosignatures(lines)
