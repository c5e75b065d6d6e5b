"""What one process does with the jobs of the queue `runs`: take up, carry, pass on."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import Announcements
from backend.jobs.queue import queue_run
from backend.repositories.theatre_runs import claim_run, hold_queued
from backend.services.resources import TheatreResources
from backend.services.run_attempts import RunAttempts
from backend.services.run_endings import RunEndings
from backend.services.run_watch import RunWatch
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
        announcements: Announcements,
        settings: Settings,
    ) -> None:
        self._engine = engine
        self._resources = resources
        self._lease_seconds = settings.lease_seconds
        self._is_draining = False
        self.endings = RunEndings(engine, resources)
        self._attempts = RunAttempts(
            announcements, self.endings, drain_seconds=settings.drain_seconds
        )

    def drain(self) -> None:
        """Have every run stop after what it is doing, and no other begin."""
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
            watch = RunWatch(
                self._engine,
                stored,
                lease_seconds=self._lease_seconds,
                is_draining=lambda: self._is_draining,
            )
            work = partial(run_theatre, self._engine, stored, self._resources)
            await self._attempts.carry(stored, work, watch)

    async def _pass_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops."""
        async with self._engine.begin() as connection:
            if await hold_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)
