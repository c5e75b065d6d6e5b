"""The workers of one process: for runs, ingestions and upkeep, started again after an outage.

procrastinate takes jobs up and keeps the heartbeat; what a job does is given by the caller.
Upkeep has a separate worker: long runs would starve it (docs/adr/0114). So have ingestions, which
mostly wait for other services and must not keep runs waiting (docs/adr/0150).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import psycopg
from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import ProcrastinateException
from procrastinate.jobs import DeleteJobCondition
from procrastinate.worker import Worker

from backend.database.sessions import session_options
from backend.jobs.queue import END_WAITING, INGEST, INGESTIONS, RUN_THEATRE, RUNS, UPKEEP

_POOL_SECONDS = 3.0
_LOOK_SECONDS = 0.01
_AGAIN_SECONDS = 0.5
_LONGEST_SECONDS = 15.0
_BEATS_IN_A_LEASE = 4
_UPKEEP_SLOTS = 2
_INGESTION_SLOTS = 2
_OUTAGES = (ProcrastinateException, psycopg.Error, OSError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandlers:
    """What the jobs do. No handler raises for what only concerns one run."""

    run_theatre: Callable[[str, int], Awaitable[None]]
    """The theatre, and the number of the job."""
    ingest: Callable[[str, int], Awaitable[None]]
    """The verification, and the number of the job."""
    end_waiting: Callable[[str], Awaitable[None]]
    rescue: Callable[[], Awaitable[None]]
    drain: Callable[[], None]
    """Have runs and ingestions stop after what they are doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How the workers of a process work."""

    runs_at_a_time: int
    lease_seconds: float
    """A worker without a heartbeat for so many seconds has lost its runs."""
    drain_seconds: float
    """How many seconds a stopping worker waits for its runs."""

    @property
    def heartbeat_seconds(self) -> float:
        """Return the time between two heartbeats, and between two looks for lost runs."""
        return self.lease_seconds / _BEATS_IN_A_LEASE


class _Worker(Protocol):
    """The part of procrastinate's worker that is used here; its own methods are untyped."""

    worker_id: int | None

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class Workers:
    """Work while the context is open."""

    def __init__(self, address: str, handlers: JobHandlers, terms: WorkerOptions) -> None:
        self._address = address
        self._duties = handlers
        self._terms = terms
        self._stopping = asyncio.Event()
        self._current: tuple[_Worker, ...] = ()

    @property
    def ids(self) -> list[int]:
        """Return the ids of the workers that are registered now."""
        return [worker.worker_id for worker in self._current if worker.worker_id is not None]

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work; on leaving, runs stop after what they are doing and are handed over.

        Entered once the workers are registered, or after a while in which they could not be.
        """
        task = asyncio.create_task(self._work())
        try:
            await self._begin()
            yield
        finally:
            self._stopping.set()
            self._duties.drain()
            if not self._current:
                # It waits for a database.
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _begin(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POOL_SECONDS):
                while not self._current or len(self.ids) < len(self._current):  # noqa: ASYNC110 - procrastinate signals no start
                    await asyncio.sleep(_LOOK_SECONDS)

    async def _work(self) -> None:
        """Start the workers, and start them again when they end, as in a database outage."""
        pause = _AGAIN_SECONDS
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            try:
                await self._work_once()
            except _OUTAGES as error:
                _log.warning("the workers have ended", exc_info=error)
            if asyncio.get_running_loop().time() - began > _LONGEST_SECONDS:
                pause = _AGAIN_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, _LONGEST_SECONDS)

    async def _work_once(self) -> None:
        # A new pool each time: an old one would wait longer and longer for the database.
        app = _app(self._address, self._duties, self._terms)
        async with app.open_async():
            with self._registered(app) as workers:
                tasks = [asyncio.create_task(worker.run()) for worker in workers]
                # After them: a worker that has not begun would miss the order to stop.
                stop_order = asyncio.create_task(self._stopping.wait())
                await asyncio.wait([*tasks, stop_order], return_when=asyncio.FIRST_COMPLETED)
                stop_order.cancel()
                for worker in workers:
                    worker.stop()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    @contextlib.contextmanager
    def _registered(self, app: App) -> Iterator[tuple[_Worker, ...]]:
        self._current = (
            self._worker(app, RUNS, slots=self._terms.runs_at_a_time),
            self._worker(app, INGESTIONS, slots=_INGESTION_SLOTS),
            self._worker(app, UPKEEP, slots=_UPKEEP_SLOTS),
        )
        try:
            yield self._current
        finally:
            self._current = ()

    def _worker(self, app: App, queue: str, *, slots: int) -> _Worker:
        terms = self._terms
        worker = Worker(
            app,
            queues=[queue],
            name=queue,
            concurrency=slots,
            fetch_job_polling_interval=min(5.0, terms.heartbeat_seconds),
            shutdown_graceful_timeout=terms.drain_seconds,
            delete_jobs=DeleteJobCondition.SUCCESSFUL,
            install_signal_handlers=False,
            update_heartbeat_interval=terms.heartbeat_seconds,
            stalled_worker_timeout=terms.lease_seconds,
        )
        return cast("_Worker", worker)


def _app(address: str, handlers: JobHandlers, terms: WorkerOptions) -> App:
    connector = PsycopgConnector(
        conninfo=address,
        kwargs={"options": session_options()},
        min_size=1,
        max_size=4,
        timeout=_POOL_SECONDS,
    )
    app = App(connector=connector)
    again = RetryStrategy(wait=int(_LONGEST_SECONDS))

    @app.task(name=RUN_THEATRE, queue=RUNS, pass_context=True)
    async def run_theatre(context: JobContext, *, theatre_id: str) -> None:
        await handlers.run_theatre(theatre_id, context.job.id or 0)

    @app.task(name=INGEST, queue=INGESTIONS, pass_context=True)
    async def ingest(context: JobContext, *, verification_id: str) -> None:
        await handlers.ingest(verification_id, context.job.id or 0)

    @app.task(name=END_WAITING, queue=UPKEEP, retry=again)
    async def end_waiting(*, theatre_id: str) -> None:
        await handlers.end_waiting(theatre_id)

    @app.periodic(cron=f"* * * * * */{max(1, round(terms.heartbeat_seconds))}")
    @app.task(name="rescue", queue=UPKEEP, queueing_lock="rescue")
    async def rescue(timestamp: int) -> None:  # noqa: ARG001 - procrastinate gives it by name
        await handlers.rescue()

    return app
