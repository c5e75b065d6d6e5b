"""Whether a worker still holds its run, and whether the run should stop.

The journal is the fence: a run that another worker has taken over writes nothing (docs/adr/0115).
This monitor is for what no database can refuse: the next call of a construct.
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
"""Least seconds between two reads: each batch of any shard is announced to all shards."""


class RunMonitor:
    """Monitors one leased run, or one shard of a run."""

    def __init__(
        self,
        engine: AsyncEngine,
        lease: Lease,
        *,
        lease_seconds: float,
        is_draining: Callable[[], bool],
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Monitor; `on_progress` is called once the run has recorded more than the workers it lost.

        It may be called several times.
        """
        self._engine = engine
        self._lease = lease
        self._lease_seconds = lease_seconds
        self._is_draining = is_draining
        self._on_progress = on_progress
        self._confirmed = asyncio.get_running_loop().time()
        self._status = lease.status

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the owner has cancelled the run."""
        return self._status.is_cancelled

    def is_stopping(self) -> bool:
        """Tell whether no further episode should be called."""
        return self.is_cancelled or self._is_draining()

    def is_needed(self, seq: int) -> bool:
        """Tell whether episode `seq` can still count, as of the last read."""
        last = self._status.last_counting
        return last is None or seq <= last

    async def wait_until_stopping(self, changes: ChangeSignal) -> None:
        """Return once the run should stop; StateConflictError once another worker holds it."""
        while not self.is_stopping():
            await changes.wait(self._lease_seconds / _LOOKS_IN_A_LEASE)
            # A database outage does not mean that the lease is lost: try again.
            with contextlib.suppress(SQLAlchemyError, OSError):
                await self._confirm()
            if not self.is_stopping():
                await asyncio.sleep(_PAUSE_SECONDS)

    async def confirm_if_stale(self) -> None:
        """Return while this worker holds the run; StateConflictError once another does.

        Within the lease no other worker can have taken it over; after that, for instance in a
        process that was paused, the row is read.
        """
        if asyncio.get_running_loop().time() - self._confirmed > self._lease_seconds / 2:
            await self._confirm()

    async def refuse_if_cancelled(self, connection: AsyncConnection, _event: AuditEvent) -> None:
        """Raise RunStoppedError where the owner has cancelled, in the transaction that settles.

        The transaction holds the row, and after it nothing can be cancelled: a certificate must not
        overtake a cancellation that was accepted, however late its announcement comes.
        """
        self._status = await self._lease.read_status(connection)
        if self.is_cancelled:
            raise RunStoppedError("expected to settle what was called, got it cancelled before")

    def guard(self, invoke: Invoker) -> Invoker:
        """Return an invoker that begins no call once another worker holds the run."""

        async def guarded(
            adapter: OracleAdapter, request: OracleInvocationRequest
        ) -> tuple[Attempt, ...]:
            await self.confirm_if_stale()
            return await invoke(adapter, request)

        return guarded

    def guard_sleep(self, sleep: Sleep) -> Sleep:
        """Return the sleep between two attempts at a call: the second needs the lease, too."""

        async def guarded(seconds: float) -> None:
            await sleep(seconds)
            await self.confirm_if_stale()

        return guarded

    async def _confirm(self) -> None:
        asked = asyncio.get_running_loop().time()
        async with self._engine.connect() as connection:
            self._status = await self._lease.read_status(connection)
        self._confirmed = asked
        if self._status.lost_workers == 0:
            self._on_progress()
