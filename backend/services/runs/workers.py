"""The workers of a process and their job handlers; the queue itself is in `backend.jobs`."""

from __future__ import annotations

import logging

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import NotReadyError
from backend.jobs.announcements import ChangeListener
from backend.jobs.rescue import drop_leftovers, rescue_lost_ingestions, rescue_lost_runs
from backend.jobs.workers import JobHandlers, WorkerOptions, Workers
from backend.services.resources import TheatreResources
from backend.services.runs.attempt import RunJobs
from backend.services.verifications.ingestion import IngestionAttempts
from backend.settings import Settings

_HEARD_OF = text("""
    SELECT id FROM procrastinate_workers
    WHERE last_heartbeat > now() - make_interval(secs => :lease_seconds)
""")
_log = logging.getLogger(__name__)


class Upkeep:
    """Upkeep of the service: queues lost runs again.

    Tiers need no sweep: the effective tier of a certificate is computed when it is read.
    """

    def __init__(self, engine: AsyncEngine, settings: Settings) -> None:
        self._engine = engine
        self._lease_seconds = settings.lease_seconds

    async def rescue(self) -> None:
        """Queue again what has lost its worker."""
        async with self._engine.begin() as connection:
            lost = await rescue_lost_runs(connection, lease_seconds=self._lease_seconds)
            readings = await rescue_lost_ingestions(connection, lease_seconds=self._lease_seconds)
            await drop_leftovers(connection, lease_seconds=self._lease_seconds)
        for theatre_id in lost:
            _warn("run", theatre_id=theatre_id)
        for verification_id in readings:
            _warn("ingestion", verification_id=verification_id)


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
    upkeep = Upkeep(engine, settings)

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
