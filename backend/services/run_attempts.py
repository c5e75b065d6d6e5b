"""One job's attempt at a run: claimed, carried as far as it goes, ended or handed over.

Whatever the attempt comes to is in the row, with the next job where there is one, before the job
ends. What a lost worker leaves is found by the rescue (docs/adr/0115).
"""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import BackendError
from backend.jobs.announcements import Announcements, News
from backend.jobs.queue import queue_run
from backend.repositories.theatre_runs import (
    StoredTheatre,
    claim_run,
    hold_queued,
    lost_workers_of,
)
from backend.services.isolation import Isolation, Stay
from backend.services.resources import TheatreResources
from backend.services.run_endings import CANCELLED, RunEndings, failure, is_to_be_mended
from backend.services.run_watch import RunWatch
from backend.services.theatre_bridge import RunEnd, run_theatre
from backend.settings import Settings
from theatre.engine.errors import RunStoppedError, StateConflictError, TheatreError

MAX_LOST_WORKERS = 5
"""A run that lost so many workers in a row and came no further is ended as failed."""
SUSPECT_LOST_WORKERS = 2
"""One that lost so many has a process to itself until it comes further (docs/adr/0130)."""
_TURNED_AWAY_IN_A_LEASE = 4

_HAND_OVER_PAUSES = (0.2, 0.5, 1.0, 2.0)
_AWAY = (DBAPIError, PoolTimeoutError, OSError)
"""A database or a disk that is away for a while, but for…"""
_FAULTS = (IntegrityError, DataError, ProgrammingError)
_log = logging.getLogger(__name__)


class RunAttempts:
    """What one process does with jobs of the queue `runs`."""

    def __init__(
        self,
        engine: AsyncEngine,
        resources: TheatreResources,
        announcements: Announcements,
        settings: Settings,
    ) -> None:
        self._engine = engine
        self._resources = resources
        self._announcements = announcements
        self._settings = settings
        self._is_draining = False
        self._isolation = Isolation(seconds=settings.lease_seconds / _TURNED_AWAY_IN_A_LEASE)
        self.endings = RunEndings(engine, resources)

    def drain(self) -> None:
        """Have every run stop after what it is doing, and no other begin."""
        self._is_draining = True

    async def attempt(self, theatre_id: str, job_id: int) -> None:
        """Do what a job asks for; one that its theatre does not wait for asks for nothing.

        Raises what the database raises where it stays away; the rescue goes on from there.
        """
        async with self._engine.connect() as connection:
            lost = await lost_workers_of(connection, theatre_id)
        is_suspect = SUSPECT_LOST_WORKERS <= lost < MAX_LOST_WORKERS
        async with self._isolation.stay(alone=is_suspect) as stay:
            if self._is_draining or stay is None:
                await self._pass_on(theatre_id, job_id)
            else:
                await self._taken_up(theatre_id, job_id, stay)

    async def _taken_up(self, theatre_id: str, job_id: int, stay: Stay) -> None:
        stored = await self._claim(theatre_id, job_id)
        if stored is None:
            return
        try:
            await self._attempt(stored, stay)
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})

    async def _attempt(self, stored: StoredTheatre, stay: Stay) -> None:
        try:
            await self._carry(stored, stay)
        except StateConflictError:
            raise
        except (TheatreError, BackendError) as error:
            if is_to_be_mended(error):
                await self._postpone(stored, error)
            else:
                await self.endings.refuse(stored, error)
        except asyncio.CancelledError:
            await asyncio.shield(self.endings.hand_over(stored))
            raise
        except _AWAY as error:
            if isinstance(error, _FAULTS):
                await self._broken(stored, error)
                return
            if is_to_be_mended(error):
                await self._postpone(stored, error)
                return
            _log.warning("run interrupted", exc_info=error, extra=_fields(stored))
            await self._hand_over_when_back(stored)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run comes to a told end
            await self._broken(stored, error)

    async def _postpone(self, stored: StoredTheatre, error: Exception) -> None:
        """Leave the run as it is and try again later, for as long as it takes."""
        _log.warning("run waits for its evidence store", exc_info=error, extra=_fields(stored))
        await self.endings.postpone(stored, error)

    async def _broken(self, stored: StoredTheatre, error: Exception) -> None:
        _log.error("run failed", exc_info=error, extra=_fields(stored))
        await self.endings.fail(stored, failure("internal-error", type(error).__name__))

    async def _claim(self, theatre_id: str, job_id: int) -> StoredTheatre | None:
        async with self._engine.begin() as connection:
            return await claim_run(
                connection, theatre_id, job_id=job_id, at=self._resources.clock()
            )

    async def _carry(self, stored: StoredTheatre, stay: Stay) -> None:
        if stored.lost_workers >= MAX_LOST_WORKERS:
            detail = (
                f"expected a worker to outlive the run, got {stored.lost_workers} lost in a row "
                "that had recorded nothing new"
            )
            await self.endings.fail(stored, failure("workers-lost", detail))
            return
        watch = RunWatch(
            self._engine,
            stored,
            lease_seconds=self._settings.lease_seconds,
            is_draining=lambda: self._is_draining or self._isolation.is_to_leave(stay),
            on_progress=lambda: self._isolation.let_others_in(stay),
        )
        if stored.cancel_requested_at is not None:
            await self.endings.fail(stored, CANCELLED)
            return
        with self._announcements.about(stored.id) as news:
            end = await self._run(stored, watch, news)
        if end is not None:
            await self.endings.note(stored, end)
        elif watch.is_cancelled:
            await self.endings.fail(stored, CANCELLED)
        else:
            await self.endings.hand_over(stored)

    async def _run(self, stored: StoredTheatre, watch: RunWatch, news: News) -> RunEnd | None:
        """Return where the run came to; None where it was to stop before."""
        running = asyncio.create_task(run_theatre(self._engine, stored, self._resources, watch))
        watching = asyncio.create_task(watch.until_stopping(news))
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and watching.exception() is None:
                _log.info("run is to stop", extra=_fields(stored))
                # What is under way may come to its end.
                await asyncio.wait([running], timeout=self._settings.drain_seconds)
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

    async def _pass_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops, or has no room for it."""
        async with self._engine.begin() as connection:
            if await hold_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)

    async def _hand_over_when_back(self, stored: StoredTheatre) -> None:
        for pause in _HAND_OVER_PAUSES:
            try:
                await self.endings.hand_over(stored)
            except (SQLAlchemyError, OSError):
                await asyncio.sleep(pause)
            else:
                return
        await self.endings.hand_over(stored)


def _fields(stored: StoredTheatre) -> dict[str, dict[str, str]]:
    return {"fields": {"theatre_id": stored.id}}
