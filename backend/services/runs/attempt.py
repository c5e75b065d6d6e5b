"""One job's attempt at a run: claimed, carried as far as it goes, ended or requeued.

The result of the attempt is in the row, with the next job where there is one, before the job ends.
The rescue finds what a lost worker leaves (docs/adr/0115).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from sqlalchemy import text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import BackendError, BudgetSpentError, JudgeKeyRefusedError, NotReadyError
from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.jobs.queue import (
    MAX_LOST_WORKERS,
    drop_leftovers,
    queue_run,
    rescue_lost_ingestions,
    rescue_lost_runs,
)
from backend.jobs.workers import JobHandlers, WorkerOptions, Workers
from backend.repositories.theatre_runs import StoredTheatre, claim_run, lock_queued
from backend.services.resources import TheatreResources
from backend.services.runs.completion import RunCompletion, failure_outcome, is_transient
from backend.services.runs.execution import run_theatre
from backend.services.runs.lease import RunEnd, RunMonitor
from backend.services.runs.paid_judge import settle_lost_calls
from backend.services.verifications.ingestion import IngestionAttempts
from backend.settings import Settings
from theatre.engine.clock import Clock
from theatre.engine.errors import RunStoppedError, StateConflictError, TheatreError
from theatre.engine.theatre import CANCELLED

Work = Callable[[RunMonitor], Awaitable[RunEnd]]
"""Carries a run as far as possible."""

_HAND_OVER_PAUSES = (0.2, 0.5, 1.0, 2.0)
_AWAY = (DBAPIError, PoolTimeoutError, OSError)
"""Failures that a database or a disk causes for a while, except…"""
_FAULTS = (IntegrityError, DataError, ProgrammingError)
_log = logging.getLogger(__name__)


class RunAttempts:
    """Carries what the jobs of one process have claimed."""

    def __init__(
        self, change_listener: ChangeListener, completion: RunCompletion, *, drain_seconds: float
    ) -> None:
        self._announcements = change_listener
        self._endings = completion
        self._drain_seconds = drain_seconds

    async def carry(self, stored: StoredTheatre, work: Work, monitor: RunMonitor) -> None:
        """Do `work` for a run that is held and watched, and say in its row what came of it.

        Raises what the database raises where it stays away; the rescue goes on from there.
        """
        try:
            await self._attempt(stored, work, monitor)
        except StateConflictError as error:
            _log.info("run is another's", extra={"fields": {"detail": str(error)}})

    async def _attempt(self, stored: StoredTheatre, work: Work, monitor: RunMonitor) -> None:
        try:
            await self._carry(stored, work, monitor)
        except StateConflictError:
            raise
        except (BudgetSpentError, JudgeKeyRefusedError) as error:
            await self._endings.wait_for_judge(stored, error)
        except (TheatreError, BackendError) as error:
            if is_transient(error):
                await self._postpone(stored, error)
            else:
                await self._endings.refuse(stored, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._endings.requeue(stored))
            raise
        except _AWAY as error:
            if isinstance(error, _FAULTS):
                await self._broken(stored, error)
                return
            if is_transient(error):
                await self._postpone(stored, error)
                return
            _log.warning("run interrupted", exc_info=error, extra=_fields(stored))
            await self._hand_over_when_back(stored)
        except Exception as error:  # noqa: BLE001 - every failure must end in the row
            await self._broken(stored, error)

    async def _postpone(self, stored: StoredTheatre, error: Exception) -> None:
        """Leave the run as it is and try again later, without a limit on retries."""
        _log.warning("run waits for evidence store or log", exc_info=error, extra=_fields(stored))
        await self._endings.postpone(stored, error)

    async def _broken(self, stored: StoredTheatre, error: Exception) -> None:
        _log.error("run failed", exc_info=error, extra=_fields(stored))
        await self._endings.fail(stored, failure_outcome("internal-error", type(error).__name__))

    async def _carry(self, stored: StoredTheatre, work: Work, monitor: RunMonitor) -> None:
        if stored.lost_workers >= MAX_LOST_WORKERS:
            detail = (
                f"expected a worker to outlive the run, got {stored.lost_workers} lost in a row "
                "that had recorded nothing new"
            )
            await self._endings.fail(stored, failure_outcome("workers-lost", detail))
            return
        if stored.cancel_requested_at is not None:
            await self._endings.fail(stored, CANCELLED)
            return
        with self._announcements.subscribe(stored.id) as changes:
            end = await self._work(stored, work, monitor, changes)
        if end is not None:
            await self._endings.note(stored, end)
        elif monitor.is_cancelled:
            await self._endings.fail(stored, CANCELLED)
        else:
            await self._endings.requeue(stored)

    async def _work(
        self, stored: StoredTheatre, work: Work, monitor: RunMonitor, changes: ChangeSignal
    ) -> RunEnd | None:
        """Return how it ended; None where it was stopped before."""
        running = asyncio.ensure_future(work(monitor))
        watching = asyncio.create_task(monitor.wait_until_stopping(changes))
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and watching.exception() is None:
                _log.info("run is to stop", extra=_fields(stored))
                # The episode under way may finish.
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
                await self._endings.requeue(stored)
            except (SQLAlchemyError, OSError):
                await asyncio.sleep(pause)
            else:
                return
        await self._endings.requeue(stored)


def _fields(stored: StoredTheatre) -> dict[str, dict[str, str]]:
    return {"fields": {"theatre_id": stored.id}}


# One process's work on jobs of the queue `runs`: take up, carry, pass on.


class RunJobs:
    """Does the jobs of runs; a job that no row waits for asks for nothing.

    Raises what the database raises where it stays away; the rescue goes on from there.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        resources: TheatreResources,
        change_listener: ChangeListener,
        settings: Settings,
    ) -> None:
        self._engine = engine
        self._resources = resources
        self._lease_seconds = settings.lease_seconds
        self._is_draining = False
        self._change_listener = change_listener
        self.completion = RunCompletion(engine, resources)
        self._attempts = RunAttempts(
            change_listener, self.completion, drain_seconds=settings.drain_seconds
        )

    def drain(self) -> None:
        """Stop every run after its current step, and let no other begin."""
        self._is_draining = True

    async def run(self, theatre_id: str, job_id: int) -> None:
        """Carry a theatre's run."""
        if self._is_draining:
            await self._pass_on(theatre_id, job_id)
            return
        async with self._engine.begin() as connection:
            stored = await claim_run(
                connection, theatre_id, job_id=job_id, at=self._resources.clock()
            )
        if stored is not None:
            monitor = RunMonitor(
                self._engine,
                stored,
                lease_seconds=self._lease_seconds,
                is_draining=lambda: self._is_draining,
            )
            work = partial(
                run_theatre, self._engine, stored, self._resources, self._change_listener
            )
            await self._attempts.carry(stored, work, monitor)

    async def _pass_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops."""
        async with self._engine.begin() as connection:
            if await lock_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)


# The workers of a process and their job handlers; the queue itself is in `backend.jobs`.


_HEARD_OF = text("""
    SELECT id FROM procrastinate_workers
    WHERE last_heartbeat > now() - make_interval(secs => :lease_seconds)
""")


class Upkeep:
    """Upkeep of the service: queues lost runs again.

    Tiers need no sweep: the effective tier of a certificate is computed when it is read.
    """

    def __init__(self, engine: AsyncEngine, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._lease_seconds = settings.lease_seconds
        self._clock = clock

    async def rescue(self) -> None:
        """Queue again what has lost its worker, and settle what that left reserved."""
        async with self._engine.begin() as connection:
            lost = await rescue_lost_runs(connection, lease_seconds=self._lease_seconds)
            readings = await rescue_lost_ingestions(connection, lease_seconds=self._lease_seconds)
            await drop_leftovers(connection, lease_seconds=self._lease_seconds)
        for theatre_id in lost:
            _warn("run", theatre_id=theatre_id)
        for verification_id in readings:
            _warn("ingestion", verification_id=verification_id)
        await settle_lost_calls(self._engine, self._clock)


def _warn(what: str, **fields: str) -> None:
    _log.warning("%s lost its worker", what, extra={"fields": fields})


def workers_of(
    address: str,
    engine: AsyncEngine,
    resources: TheatreResources,
    change_listener: ChangeListener,
    settings: Settings,
) -> Workers:
    """Return the workers of this process, which work in their context."""
    jobs = RunJobs(engine, resources, change_listener, settings)
    ingestions = IngestionAttempts(engine, resources, settings)
    upkeep = Upkeep(engine, settings, resources.clock)

    def drain() -> None:
        jobs.drain()
        ingestions.drain()

    duties = JobHandlers(
        run_theatre=jobs.run,
        ingest=ingestions.attempt,
        end_waiting=jobs.completion.end_waiting,
        rescue=upkeep.rescue,
        drain=drain,
    )
    terms = WorkerOptions(
        runs_at_a_time=settings.runs_at_a_time,
        lease_seconds=settings.lease_seconds,
        drain_seconds=settings.drain_seconds,
    )
    return Workers(address, duties, terms)


async def check_heartbeat(
    engine: AsyncEngine, *, lease_seconds: float, own: Workers | None
) -> None:
    """Return where this process's workers, or any where it has none, have a recent heartbeat.

    NotReadyError otherwise.
    """
    async with engine.connect() as connection:
        found = await connection.execute(_HEARD_OF, {"lease_seconds": lease_seconds})
        heard = set(found.scalars())
    if not heard or (own is not None and not (own.ids and heard.issuperset(own.ids))):
        raise NotReadyError("expected a worker that was heard of within its lease, got none")
