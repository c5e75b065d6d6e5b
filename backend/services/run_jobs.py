"""One process's work on jobs of the queue `runs`: take up, carry, pass on."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import ChangeListener
from backend.jobs.queue import queue_run
from backend.repositories.theatre_runs import claim_run, lock_queued
from backend.services.resources import TheatreResources
from backend.services.run_attempts import RunAttempts
from backend.services.run_endings import RunCompletion
from backend.services.run_watch import RunMonitor
from backend.services.theatre_bridge import run_theatre
from backend.settings import Settings


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
            work = partial(run_theatre, self._engine, stored, self._resources)
            await self._attempts.carry(stored, work, monitor)

    async def _pass_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops."""
        async with self._engine.begin() as connection:
            if await lock_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)
