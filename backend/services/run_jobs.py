"""One process's work on jobs of the queue `runs`: take up, carry, pass on."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import ChangeListener
from backend.jobs.queue import queue_run, queue_shard
from backend.repositories.run_shards import count_lost_workers_of_shard, lock_shard
from backend.repositories.theatre_runs import claim_run, count_lost_workers, lock_queued
from backend.services.held import Lease
from backend.services.held_runs import RunLease
from backend.services.held_shards import ShardLease
from backend.services.isolation import ProcessHold, ReadersWriterLock
from backend.services.resources import TheatreResources
from backend.services.run_attempts import MAX_LOST_WORKERS, RunAttempts
from backend.services.run_endings import RunCompletion
from backend.services.run_watch import RunMonitor
from backend.services.shard_bridge import call_shard
from backend.services.shard_places import ShardSlots
from backend.services.theatre_bridge import run_theatre
from backend.settings import Settings

SUSPECT_LOST_WORKERS = 2
"""A run or shard that lost so many workers runs alone in a process for a while (ADR 0130)."""
_TURNED_AWAY_IN_A_LEASE = 4


def _is_suspect(lost_workers: int) -> bool:
    return SUSPECT_LOST_WORKERS <= lost_workers < MAX_LOST_WORKERS


class RunJobs:
    """Does the jobs of runs and of shards; a job that no row waits for asks for nothing.

    Both raise the database's error in a long outage; the rescue goes on from there.
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
        self._isolation = ReadersWriterLock(
            seconds=settings.lease_seconds / _TURNED_AWAY_IN_A_LEASE
        )
        self._is_draining = False
        self._places = ShardSlots(
            shard_episodes=settings.shard_episodes,
            runs_at_a_time=settings.runs_at_a_time,
            lease_seconds=settings.lease_seconds,
        )
        self._attempts = RunAttempts(change_listener, drain_seconds=settings.drain_seconds)
        self.completion = RunCompletion(engine, resources)

    def drain(self) -> None:
        """Stop every run after its current step, and let no other begin."""
        self._is_draining = True

    async def run(self, theatre_id: str, job_id: int) -> None:
        """Carry a theatre's run."""
        async with self._engine.connect() as connection:
            lost = await count_lost_workers(connection, theatre_id)
        async with self._isolation.stay(alone=_is_suspect(lost)) as stay:
            if self._is_draining or stay is None:
                await self._pass_run_on(theatre_id, job_id)
                return
            async with self._engine.begin() as connection:
                stored = await claim_run(
                    connection, theatre_id, job_id=job_id, at=self._resources.clock()
                )
            if stored is not None:
                lease = RunLease(stored=stored, completion=self.completion)
                work = partial(run_theatre, self._engine, stored, self._resources, self._places)
                await self._attempts.carry(lease, work, self._make_monitor(lease, stay))

    async def run_shard(self, theatre_id: str, number: int, job_id: int) -> None:
        """Carry a shard of a run."""
        async with self._engine.connect() as connection:
            lost = await count_lost_workers_of_shard(connection, theatre_id, number)
        async with self._isolation.stay(alone=_is_suspect(lost)) as stay:
            if self._is_draining or stay is None:
                await self._pass_shard_on(theatre_id, number, job_id)
                return
            lease = await ShardLease.claimed(
                self._engine,
                theatre_id,
                number,
                job_id=job_id,
                completion=self.completion,
                places=self._places,
            )
            if lease is not None:
                work = partial(call_shard, self._engine, lease.stored, lease.claim, self._resources)
                await self._attempts.carry(lease, work, self._make_monitor(lease, stay))

    def _make_monitor(self, lease: Lease, stay: ProcessHold) -> RunMonitor:
        return RunMonitor(
            self._engine,
            lease,
            lease_seconds=self._lease_seconds,
            is_draining=lambda: self._is_draining or self._isolation.must_leave(stay),
            on_progress=lambda: self._isolation.downgrade(stay),
        )

    async def _pass_run_on(self, theatre_id: str, job_id: int) -> None:
        """Queue again a run that was taken up by a worker that stops or has no room for it."""
        async with self._engine.begin() as connection:
            if await lock_queued(connection, theatre_id, job_id=job_id):
                await queue_run(connection, theatre_id)

    async def _pass_shard_on(self, theatre_id: str, number: int, job_id: int) -> None:
        async with self._engine.begin() as connection:
            if await lock_shard(connection, theatre_id, number, state="queued", job_id=job_id):
                await queue_shard(connection, theatre_id, number)
