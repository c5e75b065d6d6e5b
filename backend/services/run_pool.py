"""The runs of one process: taken up, carried to their end, drained when the service stops.

The rows say what is to be done, this pool only does it: what a stopped or killed process leaves
queued or running, the next one takes up. One process of a deployment runs theatres.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Self

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import BackendError
from backend.repositories.theatre_runs import (
    StoredTheatre,
    cancel_wanted,
    cancels_wanted,
    claim_run,
    end_claim,
    requeue_waiting,
    runs_in,
    stored_theatre,
)
from backend.services.resources import TheatreResources
from backend.services.theatre_bridge import end_as, run_theatre
from theatre.engine.errors import RlmfExportError, StateConflictError, TheatreError
from theatre.engine.state_machine import TheatreState

MAX_RUNS = 2
"""At a time; each holds up to two connections of the pool."""

_LOOK_SECONDS = 5.0
"""How long a run may wait whose announcement was lost."""
_AGAIN_SECONDS = 1.0
_LONGEST_SECONDS = 30.0
_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s/:,;'\"]+/)*[^\s/:,;'\"]+")
_FAULTS = (IntegrityError, DataError, ProgrammingError)
_log = logging.getLogger(__name__)


class RunPool:
    """Runs what is queued, at most `MAX_RUNS` theatres at a time."""

    def __init__(self, engine: AsyncEngine, resources: TheatreResources) -> None:
        self._engine = engine
        self._resources = resources
        self._news = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False
        self._begun: set[str] = set()
        self._timers: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_RUNS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Take up what is unfinished; on leaving, record what is in and let go of the rest."""
        async with self._engine.begin() as connection:
            # Some may have waited longer than was committed.
            await requeue_waiting(connection)
        await self._take_up("running", "queued")
        looking = asyncio.create_task(self._look())
        try:
            yield self
        finally:
            self._stopping = True
            held = [looking, *self._tasks.values(), *self._timers]
            for task in held:
                task.cancel()
            await asyncio.gather(*held, return_exceptions=True)

    def announce(self) -> None:
        """Say that there may be something new to run."""
        self._news.set()

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._take_up("queued")
                await self._stop_cancelled()
            except (SQLAlchemyError, OSError) as error:
                _log.warning("looking for runs failed", exc_info=error)

    async def _take_up(self, *statuses: str) -> None:
        async with self._engine.connect() as connection:
            found = await runs_in(connection, *statuses)
        for theatre_id in found:
            if theatre_id not in self._tasks:
                task = asyncio.create_task(self._run(theatre_id))
                self._tasks[theatre_id] = task
                task.add_done_callback(partial(self._forget, theatre_id))

    async def _stop_cancelled(self) -> None:
        """Stop what its owner cancelled; what waits for its turn sees that when it comes."""
        if not self._begun:
            return
        async with self._engine.connect() as connection:
            wanted = await cancels_wanted(connection)
        for theatre_id in self._begun.intersection(wanted):
            self._begun.discard(theatre_id)
            self._tasks[theatre_id].cancel()

    def _forget(self, theatre_id: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(theatre_id, None)
        self._begun.discard(theatre_id)
        # It may have been queued anew before it was forgotten.
        self._news.set()

    async def _run(self, theatre_id: str) -> None:
        """Run until there is an end; a database that is away for a while is none."""
        pause = _AGAIN_SECONDS
        async with self._slots:
            while not self._stopping:
                try:
                    await self._attempt(theatre_id)
                except (SQLAlchemyError, OSError) as error:
                    fields = {"theatre_id": theatre_id}
                    _log.warning("run interrupted", exc_info=error, extra={"fields": fields})
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_SECONDS)
                else:
                    return

    async def _attempt(self, theatre_id: str) -> None:
        stored = await self._claimed(theatre_id)
        if stored is None:
            return
        try:
            self._begun.add(theatre_id)
            if stored.cancel_requested_at is not None:
                await self._fail(stored, _CANCELLED)
                return
            end = await run_theatre(self._engine, stored, self._resources)
        except asyncio.CancelledError:
            self._begun.discard(theatre_id)
            await self._stopped(stored)
            raise
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})
        except (TheatreError, BackendError) as error:
            await self._refused(stored, error)
        except Exception as error:
            if _is_outage(error):
                raise
            _log.exception("run failed", extra={"fields": {"theatre_id": theatre_id}})
            await self._fail(stored, _failure("internal-error", type(error).__name__))
        else:
            await self._note_end(stored, run_status=end.status, pending_step=end.pending_step)
            if end.seconds_left is not None:
                timer = asyncio.create_task(self._requeue(theatre_id, end.seconds_left))
                self._timers.add(timer)
                timer.add_done_callback(self._timers.discard)

    async def _claimed(self, theatre_id: str) -> StoredTheatre | None:
        claim = asyncio.create_task(self._claim(theatre_id))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            # What was claimed is not left behind as running.
            stored = await claim
            if stored is not None:
                await self._stopped(stored)
            raise

    async def _claim(self, theatre_id: str) -> StoredTheatre | None:
        async with self._engine.begin() as connection:
            return await claim_run(connection, theatre_id, at=self._resources.clock())

    async def _requeue(self, theatre_id: str, seconds: float) -> None:
        """Take a run up again when people had as long as was committed."""
        await asyncio.sleep(max(0.0, seconds))
        async with self._engine.begin() as connection:
            await requeue_waiting(connection, theatre_id)
        self.announce()

    async def _stopped(self, stored: StoredTheatre) -> None:
        """End what its owner stopped for good; queue what only the service stopped."""
        async with self._engine.connect() as connection:
            is_cancelled = await cancel_wanted(connection, stored.id)
        if is_cancelled:
            await self._fail(stored, _CANCELLED)
        else:
            await self._note_end(stored, run_status="queued")

    async def _refused(self, stored: StoredTheatre, error: TheatreError | BackendError) -> None:
        """Leave what cannot be begun COMMITTED; end what was begun."""
        _log.warning("run refused", extra={"fields": {"theatre_id": stored.id, "code": error.code}})
        if isinstance(error, RlmfExportError):
            # It has its certificate; only the export is missing.
            await self._note_end(stored, run_status="succeeded", error=_told(error))
        else:
            await self._fail(stored, _failure(error.code, str(error)), error=_told(error))

    async def _fail(
        self, stored: StoredTheatre, outcome: dict[str, str], *, error: str | None = None
    ) -> None:
        async with self._engine.connect() as connection:
            row = await stored_theatre(connection, stored.id)
        # Under the own epoch: a run that another has taken over is not ended here.
        now = row._replace(run_epoch=stored.run_epoch)
        status = "cancelled" if outcome["outcome"] == "void" else "failed"
        if now.state in {TheatreState.ACTIVE.value, TheatreState.SETTLING.value}:
            await end_as(self._engine, now, self._resources, outcome={**outcome})
        told = error or outcome.get("error_detail")
        await self._note_end(stored, run_status=status, error=told, pending_step=None)

    async def _note_end(self, stored: StoredTheatre, **changes: str | None) -> None:
        async with self._engine.begin() as connection:
            await end_claim(
                connection,
                stored.id,
                epoch=stored.run_epoch,
                updated_at=self._resources.clock(),
                **changes,
            )


_CANCELLED = {"outcome": "void", "outcome_reason": "cancelled"}


def _is_outage(error: Exception) -> bool:
    """Tell whether something is away for a while, rather than wrong."""
    if isinstance(error, DBAPIError):
        return not isinstance(error, _FAULTS)
    return isinstance(error, (OSError, PoolTimeoutError))


def _failure(reason: str, detail: str) -> dict[str, str]:
    told = without_paths(detail)[:500]
    return {"outcome": "failed", "outcome_reason": reason, "error_detail": told}


def _told(error: TheatreError | BackendError) -> str:
    return f"{error.code}: {without_paths(str(error))}"


def without_paths(text: str) -> str:
    """Return a message without the folders of this machine."""
    return _PATH.sub("[path]", text)
