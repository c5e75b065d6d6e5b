"""What one process does with the jobs of the queue `runs`: take up, carry, pass on."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import Announcements
from backend.jobs.queue import queue_run, queue_shard
from backend.repositories.run_shards import hold_shard
from backend.repositories.theatre_runs import claim_run, hold_queued
from backend.services.held import Held
from backend.services.held_runs import HeldRun
from backend.services.held_shards import HeldShard
from backend.services.resources import TheatreResources
from backend.services.run_attempts import RunAttempts
from backend.services.run_endings import RunEndings
from backend.services.run_watch import RunWatch
from backend.services.shard_bridge import call_shard
from backend.services.shard_places import ShardPlaces
from backend.services.theatre_bridge import run_theatre
from backend.settings import Settings


class RunJobs:
    """Does the jobs of runs and of shards; a job that no row waits for asks for nothing.

    Both raise what the database raises where it stays away; the rescue goes on from there.
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
        self._places = ShardPlaces(
            shard_episodes=settings.shard_episodes,
            runs_at_a_time=settings.runs_at_a_time,
            lease_seconds=settings.lease_seconds,
        )
        self._attempts = RunAttempts(
            announcements, self._watch, drain_seconds=settings.drain_seconds
        )
        self.endings = RunEndings(engine, resources)

    def drain(self) -> None:
        """Have every run stop after what it is doing, and no other begin."""
        self._is_draining = True

    async def run(self, theatre_id: str, job_id: int) -> None:
        """Carry a theatre's run."""
        if self._is_draining:
            await self._pass_run_on(theatre_id, job_id)
            return
        async with self._engine.begin() as connection:
            stored = await claim_run(
                connection, theatre_id, job_id=job_id, at=self._resources.clock()
            )
        if stored is not None:
            held = HeldRun(stored=stored, endings=self.endings)
            work = partial(run_theatre, self._engine, stored, self._resources, self._places)
            await self._attempts.carry(held, work)

    async def run_shard(self, theatre_id: str, number: int, job_id: int) -> None:
        """Carry a shard of a run."""
        if self._is_draining:
            await self._pass_shard_on(theatre_id, number, job_id)
            return
        held = await HeldShard.claimed(
            self._engine,
            theatre_id,
            number,
            job_id=job_id,
            endings=self.endings,
            places=self._places,
        )
        if held is not None:
            work = partial(call_shard, self._engine, held.stored, held.claim, self._resources)
            await self._attempts.carry(held, work)

    def _watch(self, held: Held) -> RunWatch:
        return RunWatch(
            self._engine,
            held,
            lease_seconds=self._lease_seconds,
            is_draining=lambda: self._is_draining,
        )

    async def _pass_run_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops."""
        async with self._engine.begin() as connection:
            if await hold_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)

    async def _pass_shard_on(self, theatre_id: str, number: int, job_id: int) -> None:
        async with self._engine.begin() as connection:
            if await hold_shard(connection, theatre_id, number, state="queued", job_id=job_id):
                await queue_shard(connection, theatre_id, number)
