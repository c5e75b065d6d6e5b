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

from backend.jobs.announcements import News
from backend.jobs.queue import clear_suspect
from backend.repositories.theatre_runs import StoredTheatre, claim_now
from backend.services.held import Standing
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.clock import Sleep
from theatre.engine.errors import RunStoppedError, StateConflictError
from theatre.engine.oracle_contract import (
    Attempt,
    Invoker,
    OracleAdapter,
    OracleInvocationRequest,
)

_LOOKS_IN_A_LEASE = 4
_PAUSE_SECONDS = 0.1
"""Between two looks, at least: each batch is news."""


class RunWatch:
    """Watches one claimed run."""

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
        self._lease = lease_seconds
        self._is_draining = is_draining
        self._confirmed = asyncio.get_running_loop().time()
        self._standing = Standing(stored.cancel_requested_at is not None, stored.lost_workers)

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the owner wants the run ended."""
        return self._standing.is_cancelled

    def is_stopping(self) -> bool:
        """Tell whether no further episode is to be called."""
        return self.is_cancelled or self._is_draining()

    async def until_stopping(self, news: News) -> None:
        """Return once the run is to stop; StateConflictError once it is another's."""
        while not self.is_stopping():
            await news.wait(self._lease / _LOOKS_IN_A_LEASE)
            # A database that is away says nothing of whose the run is.
            with contextlib.suppress(SQLAlchemyError, OSError):
                await self._confirm()
            if not self.is_stopping():
                await asyncio.sleep(_PAUSE_SECONDS)

    async def confirm_if_long_ago(self) -> None:
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
        self._standing = await self._look(connection)
        if self.is_cancelled:
            raise RunStoppedError("expected to settle what was called, got it cancelled before")

    def guarded(self, invoke: Invoker) -> Invoker:
        """Return an invoker that begins no call for a run that is another's."""

        async def guarded(
            adapter: OracleAdapter, request: OracleInvocationRequest
        ) -> tuple[Attempt, ...]:
            await self.confirm_if_long_ago()
            return await invoke(adapter, request)

        return guarded

    def guarded_sleep(self, sleep: Sleep) -> Sleep:
        """Return the sleep between two attempts at a call: the second is no less a call."""

        async def guarded(seconds: float) -> None:
            await sleep(seconds)
            await self.confirm_if_long_ago()

        return guarded

    async def _confirm(self) -> None:
        asked = asyncio.get_running_loop().time()
        async with self._engine.begin() as connection:
            self._standing = await self._look(connection)
        self._confirmed = asked

    async def _look(self, connection: AsyncConnection) -> Standing:
        """Return how the run stands now, and clear it once it has recorded anything.

        StateConflictError where it is another's.
        """
        now = await claim_now(connection, self._stored.id)
        if now.run_epoch != self._stored.run_epoch:
            raise StateConflictError(
                f"expected to hold the run of theatre {self._stored.id} in epoch "
                f"{self._stored.run_epoch}, got epoch {now.run_epoch}: another worker has it"
            )
        if now.lost_workers < self._standing.lost_workers:
            await clear_suspect(connection, self._stored.id)
        return Standing(now.cancel_requested_at is not None, now.lost_workers)
