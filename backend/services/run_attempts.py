"""One job's attempt at a run: claimed, carried as far as it goes, ended or handed over.

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
from backend.jobs.announcements import Announcements, News
from backend.jobs.queue import MAX_LOST_WORKERS
from backend.repositories.theatre_runs import StoredTheatre
from backend.services.held import RunEnd
from backend.services.run_endings import RunEndings, failure, is_to_be_mended
from backend.services.run_watch import RunWatch
from theatre.engine.errors import RunStoppedError, StateConflictError, TheatreError
from theatre.engine.theatre import CANCELLED

Work = Callable[[RunWatch], Awaitable[RunEnd]]
"""Carries a run as far as it goes."""

_HAND_OVER_PAUSES = (0.2, 0.5, 1.0, 2.0)
_AWAY = (DBAPIError, PoolTimeoutError, OSError)
"""A database or a disk that is away for a while, but for…"""
_FAULTS = (IntegrityError, DataError, ProgrammingError)
_log = logging.getLogger(__name__)


class RunAttempts:
    """Carries what the jobs of one process have claimed."""

    def __init__(
        self,
        announcements: Announcements,
        endings: RunEndings,
        *,
        drain_seconds: float,
    ) -> None:
        self._announcements = announcements
        self._endings = endings
        self._drain_seconds = drain_seconds

    async def carry(self, stored: StoredTheatre, work: Work, watch: RunWatch) -> None:
        """Do `work` for a run that is held and watched, and say in its row what came of it.

        Raises what the database raises where it stays away; the rescue goes on from there.
        """
        try:
            await self._attempt(stored, work, watch)
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})

    async def _attempt(self, stored: StoredTheatre, work: Work, watch: RunWatch) -> None:
        try:
            await self._carry(stored, work, watch)
        except StateConflictError:
            raise
        except (TheatreError, BackendError) as error:
            if is_to_be_mended(error):
                await self._postpone(stored, error)
            else:
                await self._endings.refuse(stored, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._endings.hand_over(stored))
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
        await self._endings.postpone(stored, error)

    async def _broken(self, stored: StoredTheatre, error: Exception) -> None:
        _log.error("run failed", exc_info=error, extra=_fields(stored))
        await self._endings.fail(stored, failure("internal-error", type(error).__name__))

    async def _carry(self, stored: StoredTheatre, work: Work, watch: RunWatch) -> None:
        if stored.lost_workers >= MAX_LOST_WORKERS:
            detail = (
                f"expected a worker to outlive the run, got {stored.lost_workers} lost in a row "
                "that had recorded nothing new"
            )
            await self._endings.fail(stored, failure("workers-lost", detail))
            return
        if stored.cancel_requested_at is not None:
            await self._endings.fail(stored, CANCELLED)
            return
        with self._announcements.about(stored.id) as news:
            end = await self._work(stored, work, watch, news)
        if end is not None:
            await self._endings.note(stored, end)
        elif watch.is_cancelled:
            await self._endings.fail(stored, CANCELLED)
        else:
            await self._endings.hand_over(stored)

    async def _work(
        self, stored: StoredTheatre, work: Work, watch: RunWatch, news: News
    ) -> RunEnd | None:
        """Return where it came to; None where it was to stop before."""
        running = asyncio.ensure_future(work(watch))
        watching = asyncio.create_task(watch.until_stopping(news))
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and watching.exception() is None:
                _log.info("run is to stop", extra=_fields(stored))
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

    async def _hand_over_when_back(self, stored: StoredTheatre) -> None:
        for pause in _HAND_OVER_PAUSES:
            try:
                await self._endings.hand_over(stored)
            except (SQLAlchemyError, OSError):
                await asyncio.sleep(pause)
            else:
                return
        await self._endings.hand_over(stored)


def _fields(stored: StoredTheatre) -> dict[str, dict[str, str]]:
    return {"fields": {"theatre_id": stored.id}}
