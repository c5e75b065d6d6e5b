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
from backend.jobs.announcements import Announcements, News
from backend.services.held import Held, RunEnd
from backend.services.run_endings import failure, is_to_be_mended
from backend.services.run_watch import RunWatch
from theatre.engine.errors import RunStoppedError, StateConflictError, TheatreError

MAX_LOST_WORKERS = 5
"""A run, or a shard, that lost so many workers in a row and came no further ends it as failed."""

Work = Callable[[RunWatch], Awaitable[RunEnd]]
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
        announcements: Announcements,
        *,
        drain_seconds: float,
    ) -> None:
        self._announcements = announcements
        self._drain_seconds = drain_seconds

    async def carry(self, held: Held, work: Work, watch: RunWatch) -> None:
        """Do `work` for what is held and watched, and say in the rows what came of it.

        Raises what the database raises where it stays away; the rescue goes on from there.
        """
        try:
            await self._attempt(held, work, watch)
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})

    async def _attempt(self, held: Held, work: Work, watch: RunWatch) -> None:
        try:
            await self._carry(held, work, watch)
        except StateConflictError:
            raise
        except (TheatreError, BackendError) as error:
            if is_to_be_mended(error):
                await self._postpone(held, error)
            else:
                await held.refuse(error)
        except asyncio.CancelledError:
            await asyncio.shield(held.hand_over())
            raise
        except _AWAY as error:
            if isinstance(error, _FAULTS):
                await self._broken(held, error)
                return
            if is_to_be_mended(error):
                await self._postpone(held, error)
                return
            _log.warning("run interrupted", exc_info=error, extra=_fields(held))
            await self._hand_over_when_back(held)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run comes to a told end
            await self._broken(held, error)

    async def _postpone(self, held: Held, error: Exception) -> None:
        """Leave the run as it is and try again later, for as long as it takes."""
        _log.warning("run waits for its evidence store", exc_info=error, extra=_fields(held))
        await held.postpone(error)

    async def _broken(self, held: Held, error: Exception) -> None:
        _log.error("run failed", exc_info=error, extra=_fields(held))
        await held.fail(failure("internal-error", type(error).__name__))

    async def _carry(self, held: Held, work: Work, watch: RunWatch) -> None:
        if held.lost_workers >= MAX_LOST_WORKERS:
            detail = (
                f"expected a worker to outlive the run, got {held.lost_workers} lost in a row "
                "that had recorded nothing new"
            )
            await held.fail(failure("workers-lost", detail))
            return
        if held.standing.is_cancelled:
            await held.cancel()
            return
        with self._announcements.about(held.stored.id) as news:
            end = await self._work(held, work, watch, news)
        if end is not None:
            await held.note(end)
        elif watch.is_cancelled:
            await held.cancel()
        else:
            await held.hand_over()

    async def _work(self, held: Held, work: Work, watch: RunWatch, news: News) -> RunEnd | None:
        """Return where it came to; None where it was to stop before."""
        running = asyncio.ensure_future(work(watch))
        watching = asyncio.create_task(watch.until_stopping(news))
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and watching.exception() is None:
                _log.info("run is to stop", extra=_fields(held))
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

    async def _hand_over_when_back(self, held: Held) -> None:
        for pause in _HAND_OVER_PAUSES:
            try:
                await held.hand_over()
            except (SQLAlchemyError, OSError):
                await asyncio.sleep(pause)
            else:
                return
        await held.hand_over()


def _fields(held: Held) -> dict[str, dict[str, str]]:
    return {"fields": {"theatre_id": held.stored.id}}
