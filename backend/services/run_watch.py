"""Whether a run is still its worker's, and whether it is to stop.

The fence is the journal's: what another has taken over writes nothing (docs/adr/0115). This watch
is for what no database can refuse: the next call of a construct.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.jobs.announcements import ChangeSignal
from backend.services.held import Lease
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.clock import Sleep
from theatre.engine.errors import RunStoppedError
from theatre.engine.oracle_contract import (
    Attempt,
    Invoker,
    OracleAdapter,
    OracleInvocationRequest,
)

_LOOKS_IN_A_LEASE = 4
_PAUSE_SECONDS = 0.1
"""Between two looks, at least: each batch of any shard is news to all shards of the run."""


class RunMonitor:
    """Watches one claimed run, or one shard of a run."""

    def __init__(
        self,
        engine: AsyncEngine,
        lease: Lease,
        *,
        lease_seconds: float,
        is_draining: Callable[[], bool],
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Watch; `on_progress` is called where the run has come further than the workers it lost.

        It may be called again and again.
        """
        self._engine = engine
        self._held = lease
        self._lease = lease_seconds
        self._is_draining = is_draining
        self._on_progress = on_progress
        self._confirmed = asyncio.get_running_loop().time()
        self._standing = lease.status

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the owner wants the run ended."""
        return self._standing.is_cancelled

    def is_stopping(self) -> bool:
        """Tell whether no further episode is to be called."""
        return self.is_cancelled or self._is_draining()

    def is_needed(self, seq: int) -> bool:
        """Tell whether episode `seq` can still count, as far as the last look shows."""
        last = self._standing.last_counting
        return last is None or seq <= last

    async def wait_until_stopping(self, changes: ChangeSignal) -> None:
        """Return once the run is to stop; StateConflictError once it is another's."""
        while not self.is_stopping():
            await changes.wait(self._lease / _LOOKS_IN_A_LEASE)
            # A database that is away says nothing of whose the run is.
            with contextlib.suppress(SQLAlchemyError, OSError):
                await self._confirm()
            if not self.is_stopping():
                await asyncio.sleep(_PAUSE_SECONDS)

    async def confirm_if_stale(self) -> None:
        """Return while the run is this worker's; StateConflictError once it is another's.

        Within the lease nobody can have taken it over; after that, for instance in a process that
        was paused, the row is asked.
        """
        if asyncio.get_running_loop().time() - self._confirmed > self._lease / 2:
            await self._confirm()

    async def refuse_if_cancelled(self, connection: AsyncConnection, _event: AuditEvent) -> None:
        """Raise RunStoppedError where the owner has cancelled: in the transaction that settles.

        It holds the row, and behind it nothing can be cancelled: no cancellation that was accepted
        is overtaken by a certificate, however late its news come.
        """
        self._standing = await self._held.read_status(connection)
        if self.is_cancelled:
            raise RunStoppedError("expected to settle what was called, got it cancelled before")

    def guard(self, invoke: Invoker) -> Invoker:
        """Return an invoker that begins no call for a run that is another's."""

        async def guarded(
            adapter: OracleAdapter, request: OracleInvocationRequest
        ) -> tuple[Attempt, ...]:
            await self.confirm_if_stale()
            return await invoke(adapter, request)

        return guarded

    def guard_sleep(self, sleep: Sleep) -> Sleep:
        """Return the sleep between two attempts at a call: the second is no less a call."""

        async def guarded(seconds: float) -> None:
            await sleep(seconds)
            await self.confirm_if_stale()

        return guarded

    async def _confirm(self) -> None:
        asked = asyncio.get_running_loop().time()
        async with self._engine.connect() as connection:
            self._standing = await self._held.read_status(connection)
        self._confirmed = asked
        if self._standing.lost_workers == 0:
            self._on_progress()
