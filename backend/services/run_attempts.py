"""One job's attempt at a run or a shard: claimed, carried as far as it goes, ended or handed over.

Whatever the attempt comes to is in the row, with the next job where there is one, before the job
ends. What a lost worker leaves is found by the rescue (docs/adr/0115).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from backend.errors import BackendError
from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.services.held import Lease, RunEnd
from backend.services.run_endings import failure_outcome, is_transient
from backend.services.run_watch import RunMonitor
from theatre.engine.errors import RunStoppedError, StateConflictError, TheatreError

MAX_LOST_WORKERS = 5
"""A run, or a shard, that lost so many workers in a row and came no further ends it as failed."""

Work = Callable[[RunMonitor], Awaitable[RunEnd]]
"""Carries what is held as far as it goes."""

_HAND_OVER_PAUSES = (0.2, 0.5, 1.0, 2.0)
_AWAY = (DBAPIError, PoolTimeoutError, OSError)
"""A database or a disk that is away for a while, but for…"""
_FAULTS = (IntegrityError, DataError, ProgrammingError)
_log = logging.getLogger(__name__)


class RunAttempts:
    """Carries what the jobs of one process have claimed."""

    def __init__(
        self,
        change_listener: ChangeListener,
        *,
        drain_seconds: float,
    ) -> None:
        self._announcements = change_listener
        self._drain_seconds = drain_seconds

    async def carry(self, lease: Lease, work: Work, monitor: RunMonitor) -> None:
        """Do `work` for what is held and watched, and say in the rows what came of it.

        Raises what the database raises where it stays away; the rescue goes on from there.
        """
        try:
            await self._attempt(lease, work, monitor)
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})

    async def _attempt(self, lease: Lease, work: Work, monitor: RunMonitor) -> None:
        try:
            await self._carry(lease, work, monitor)
        except StateConflictError:
            raise
        except (TheatreError, BackendError) as error:
            if is_transient(error):
                await self._postpone(lease, error)
            else:
                await lease.refuse(error)
        except asyncio.CancelledError:
            await asyncio.shield(lease.requeue())
            raise
        except _AWAY as error:
            if isinstance(error, _FAULTS):
                await self._broken(lease, error)
                return
            if is_transient(error):
                await self._postpone(lease, error)
                return
            _log.warning("run interrupted", exc_info=error, extra=_fields(lease))
            await self._hand_over_when_back(lease)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run comes to a told end
            await self._broken(lease, error)

    async def _postpone(self, lease: Lease, error: Exception) -> None:
        """Leave the run as it is and try again later, for as long as it takes."""
        _log.warning("run waits for its evidence store", exc_info=error, extra=_fields(lease))
        await lease.postpone(error)

    async def _broken(self, lease: Lease, error: Exception) -> None:
        _log.error("run failed", exc_info=error, extra=_fields(lease))
        await lease.fail(failure_outcome("internal-error", type(error).__name__))

    async def _carry(self, lease: Lease, work: Work, monitor: RunMonitor) -> None:
        if lease.lost_workers >= MAX_LOST_WORKERS:
            detail = (
                f"expected a worker to outlive the run, got {lease.lost_workers} lost in a row "
                "that had recorded nothing new"
            )
            await lease.fail(failure_outcome("workers-lost", detail))
            return
        if lease.status.is_cancelled:
            await lease.cancel()
            return
        with self._announcements.subscribe(lease.stored.id) as changes:
            end = await self._work(lease, work, monitor, changes)
        if end is not None:
            await lease.note(end)
        elif monitor.is_cancelled:
            await lease.cancel()
        else:
            await lease.requeue()

    async def _work(
        self, lease: Lease, work: Work, monitor: RunMonitor, changes: ChangeSignal
    ) -> RunEnd | None:
        """Return where it came to; None where it was to stop before."""
        running = asyncio.ensure_future(work(monitor))
        watching = asyncio.create_task(monitor.wait_until_stopping(changes))
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and watching.exception() is None:
                _log.info("run is to stop", extra=_fields(lease))
                # What is under way may come to its end.
                await asyncio.wait([running], timeout=self._drain_seconds)
        finally:
            watching.cancel()
            running.cancel()
            await asyncio.wait([running, watching])
        if running.cancelled():
            if not watching.cancelled():
                watching.result()
            return None
        try:
            return running.result()
        except RunStoppedError:
            return None

    async def _hand_over_when_back(self, lease: Lease) -> None:
        for pause in _HAND_OVER_PAUSES:
            try:
                await lease.requeue()
            except (SQLAlchemyError, OSError):
                await asyncio.sleep(pause)
            else:
                return
        await lease.requeue()


def _fields(lease: Lease) -> dict[str, dict[str, str]]:
    return {"fields": {"theatre_id": lease.stored.id}}
