"""What one process does with the jobs of the queue `runs`: take up, carry, pass on."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import Announcements
from backend.jobs.queue import queue_run, queue_shard
from backend.repositories.run_shards import hold_shard, lost_workers_of_shard
from backend.repositories.theatre_runs import claim_run, hold_queued, lost_workers_of
from backend.services.held import Held
from backend.services.held_runs import HeldRun
from backend.services.held_shards import HeldShard
from backend.services.isolation import Isolation, Stay
from backend.services.resources import TheatreResources
from backend.services.run_attempts import MAX_LOST_WORKERS, RunAttempts
from backend.services.run_endings import RunEndings
from backend.services.run_watch import RunWatch
from backend.services.shard_bridge import call_shard
from backend.services.shard_places import ShardPlaces
from backend.services.theatre_bridge import run_theatre
from backend.settings import Settings

SUSPECT_LOST_WORKERS = 2
"""A run or shard that lost so many has a process to itself until it comes further (ADR 0130)."""
_TURNED_AWAY_IN_A_LEASE = 4


def _is_suspect(lost_workers: int) -> bool:
    return SUSPECT_LOST_WORKERS <= lost_workers < MAX_LOST_WORKERS


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
        self._isolation = Isolation(seconds=settings.lease_seconds / _TURNED_AWAY_IN_A_LEASE)
        self._is_draining = False
        self._places = ShardPlaces(
            shard_episodes=settings.shard_episodes,
            runs_at_a_time=settings.runs_at_a_time,
            lease_seconds=settings.lease_seconds,
        )
        self._attempts = RunAttempts(announcements, drain_seconds=settings.drain_seconds)
        self.endings = RunEndings(engine, resources)

    def drain(self) -> None:
        """Have every run stop after what it is doing, and no other begin."""
        self._is_draining = True

    async def run(self, theatre_id: str, job_id: int) -> None:
        """Carry a theatre's run."""
        async with self._engine.connect() as connection:
            lost = await lost_workers_of(connection, theatre_id)
        async with self._isolation.stay(alone=_is_suspect(lost)) as stay:
            if self._is_draining or stay is None:
                await self._pass_run_on(theatre_id, job_id)
                return
            async with self._engine.begin() as connection:
                stored = await claim_run(
                    connection, theatre_id, job_id=job_id, at=self._resources.clock()
                )
            if stored is not None:
                held = HeldRun(stored=stored, endings=self.endings)
                work = partial(run_theatre, self._engine, stored, self._resources, self._places)
                await self._attempts.carry(held, work, self._watch(held, stay))

    async def run_shard(self, theatre_id: str, number: int, job_id: int) -> None:
        """Carry a shard of a run."""
        async with self._engine.connect() as connection:
            lost = await lost_workers_of_shard(connection, theatre_id, number)
        async with self._isolation.stay(alone=_is_suspect(lost)) as stay:
            if self._is_draining or stay is None:
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
                await self._attempts.carry(held, work, self._watch(held, stay))

    def _watch(self, held: Held, stay: Stay) -> RunWatch:
        return RunWatch(
            self._engine,
            held,
            lease_seconds=self._lease_seconds,
            is_draining=lambda: self._is_draining or self._isolation.is_to_leave(stay),
            on_progress=lambda: self._isolation.let_others_in(stay),
        )

    async def _pass_run_on(self, theatre_id: str, job_id: int) -> None:
        """Queue anew what was taken up by a worker that stops, or has no room for it."""
        async with self._engine.begin() as connection:
            if await hold_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)

    async def _pass_shard_on(self, theatre_id: str, number: int, job_id: int) -> None:
        async with self._engine.begin() as connection:
            if await hold_shard(connection, theatre_id, number, state="queued", job_id=job_id):
                await queue_shard(connection, theatre_id, number)
