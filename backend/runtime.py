"""What a process of the service lives with, whether it serves HTTP, runs theatres, or both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.opening import opened_database
from backend.database.role_check import check_application_role
from backend.database.sessions import POOL_SIZE, application_engine
from backend.jobs.announcements import Announcements
from backend.jobs.workers import Workers
from backend.services.clean_up import cleaning
from backend.services.resources import TheatreResources
from backend.services.store_watch import StoreWatch
from backend.services.workers import workers_of
from backend.settings import Settings
from theatre.engine.clock import Clock

_CONNECTIONS_OF_A_RUN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The long-lived parts; `workers` is None where this process runs no theatres."""

    engine: AsyncEngine
    resources: TheatreResources
    announcements: Announcements
    store_watch: StoreWatch
    workers: Workers | None


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


@asynccontextmanager
async def opened_runtime(
    settings: Settings, *, works: bool, clock: Clock = now
) -> AsyncIterator[Runtime]:
    """Open database, resources and, where it `works`, workers; close them on leaving.

    Raises EmbeddedServerError, MigrationError, DatabaseRoleError, and what `TheatreResources.of`
    raises.
    """
    async with AsyncExitStack() as stack:
        opened = opened_database(settings)
        # Both ends block: PostgreSQL starts, is migrated, and stops.
        address = await asyncio.to_thread(opened.__enter__)
        stack.push_async_callback(asyncio.to_thread, opened.__exit__, None, None, None)
        engine = application_engine(address, pool_size=_pool_size(settings, works=works))
        stack.push_async_callback(engine.dispose)
        async with engine.connect() as connection:
            await check_application_role(connection)
        resources = await asyncio.to_thread(TheatreResources.of, settings, clock=clock)
        announcements = Announcements(address)
        await stack.enter_async_context(announcements.listening())
        store_watch = StoreWatch(resources.store)
        await stack.enter_async_context(store_watch.watching())
        workers = None
        if works:
            workers = workers_of(address, engine, resources, announcements, settings)
            await stack.enter_async_context(workers.working())
            await stack.enter_async_context(cleaning(engine, resources))
        yield Runtime(
            engine=engine,
            resources=resources,
            announcements=announcements,
            store_watch=store_watch,
            workers=workers,
        )


async def work(settings: Settings, stop: asyncio.Event) -> None:
    """Run theatres until `stop` is set, and hand over what is under way then; errors as above."""
    async with opened_runtime(settings, works=True):
        await stop.wait()


def _pool_size(settings: Settings, *, works: bool) -> int:
    return POOL_SIZE + (_CONNECTIONS_OF_A_RUN * settings.runs_at_a_time if works else 0)
