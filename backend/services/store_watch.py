"""Whether the evidence store can be written to: probed every few seconds, answered at once.

A run that waits for the store says so itself. This is for health checks of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from backend.errors import EvidenceStoreError
from backend.evidence_store import EvidenceStore

EVERY_SECONDS = 5.0
_log = logging.getLogger(__name__)


class StoreMonitor:
    """Monitors one store, in a process that uses it."""

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store
        self.trouble: EvidenceStoreError | None = None
        """The last refusal of store or local disk; None after a success."""

    @contextlib.asynccontextmanager
    async def monitor(self) -> AsyncIterator[None]:
        """Probe until the context is left."""
        task = asyncio.create_task(self._monitor_loop())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _monitor_loop(self) -> None:
        while True:
            await self._probe()
            await asyncio.sleep(EVERY_SECONDS)

    async def _probe(self) -> None:
        before = self.trouble
        try:
            await asyncio.to_thread(self._store.probe)
        except EvidenceStoreError as error:
            self.trouble = error
        else:
            self.trouble = None
        if self.trouble is not None and before is None:
            _log.warning("evidence store refuses", exc_info=self.trouble)
        elif self.trouble is None and before is not None:
            _log.info("evidence store is back")
