"""Whether a worker still holds its run, and whether the run should stop.

The journal is the fence: a run that another worker has taken over writes nothing (docs/adr/0115).
This monitor is for what no database can refuse: the next call of a construct.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.jobs.announcements import ChangeSignal
from backend.jobs.queue import clear_suspect
from backend.repositories.theatre_runs import ClaimStatus, StoredTheatre, read_claim
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.clock import Sleep
from theatre.engine.errors import RunStoppedError, StateConflictError
from theatre.engine.oracle_contract import Attempt, Invoker, OracleAdapter, OracleInvocationRequest


class RunEnd(NamedTuple):
    """Where a run came to: a status of the row, and the step that waits for people, if one does."""

    status: str
    pending_step: str | None = None
    seconds_left: float | None = None
    """Until the committed time limit of that step, if it has one."""


_LOOKS_IN_A_LEASE = 4
_PAUSE_SECONDS = 0.1
"""Least seconds between two reads: each batch is announced."""


class RunMonitor:
    """Monitors one claimed run."""

    def __init__(
        self,
        engine: AsyncEngine,
        stored: StoredTheatre,
        *,
        lease_seconds: float,
        is_draining: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._stored = stored
        self._lease_seconds = lease_seconds
        self._is_draining = is_draining
        self._confirmed = asyncio.get_running_loop().time()
        self._status = ClaimStatus(
            stored.run_epoch, stored.lost_workers, stored.cancel_requested_at
        )

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the owner has cancelled the run."""
        return self._status.cancel_requested_at is not None

    def is_stopping(self) -> bool:
        """Tell whether no further episode should be called."""
        return self.is_cancelled or self._is_draining()

    async def wait_until_stopping(self, changes: ChangeSignal) -> None:
        """Return once the run is to stop; StateConflictError once it is another's."""
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
        self._status = await self._look(connection)
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
        async with self._engine.begin() as connection:
            self._status = await self._look(connection)
        self._confirmed = asked

    async def _look(self, connection: AsyncConnection) -> ClaimStatus:
        """Return how the run stands now, and clear it once it has recorded anything.

        StateConflictError where it is another's.
        """
        now = await read_claim(connection, self._stored.id)
        if now.run_epoch != self._stored.run_epoch:
            raise StateConflictError(
                f"expected to hold the run of theatre {self._stored.id} in epoch "
                f"{self._stored.run_epoch}, got epoch {now.run_epoch}: another worker has it"
            )
        if now.lost_workers < self._status.lost_workers:
            await clear_suspect(connection, self._stored.id)
        return now
