"""The long-lived parts of a process of the service: it serves HTTP, runs theatres, or both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.migrations import open_database
from backend.database.sessions import POOL_SIZE, application_engine, check_application_role
from backend.jobs.announcements import ChangeListener, running
from backend.jobs.workers import Workers
from backend.services.integrity.retention import StoreMonitor, clean_up_periodically
from backend.services.resources import TheatreResources
from backend.services.runs.attempt import workers_of
from backend.services.transparency.keys import open_keys, publish_trust
from backend.services.transparency.writer import write_log
from backend.settings import Settings
from theatre.engine.clock import Clock

_CONNECTIONS_OF_A_RUN = 2
_CONNECTIONS_OF_THE_LOG = 2
"""One holds the writer's lock, one writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The long-lived parts; `workers` is None where this process runs no theatres."""

    engine: AsyncEngine
    resources: TheatreResources
    change_listener: ChangeListener
    store_monitor: StoreMonitor
    workers: Workers | None


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


@asynccontextmanager
async def open_runtime(
    settings: Settings, *, works: bool, clock: Clock = now
) -> AsyncIterator[Runtime]:
    """Open database, resources and, where it `works`, workers; close them on leaving.

    Raises EmbeddedServerError, MigrationError, DatabaseRoleError, and what `open_keys`,
    `publish_trust` and `TheatreResources.of` raise.
    """
    async with AsyncExitStack() as stack:
        opened = open_database(settings)
        # In a thread, since both ends block: PostgreSQL starts, is migrated, and stops.
        address = await asyncio.to_thread(opened.__enter__)
        stack.push_async_callback(asyncio.to_thread, opened.__exit__, None, None, None)
        of_runs = _CONNECTIONS_OF_A_RUN * settings.runs_at_a_time if works else 0
        of_the_log = _CONNECTIONS_OF_THE_LOG if works else 0
        engine = application_engine(address, pool_size=POOL_SIZE + of_runs + of_the_log)
        stack.push_async_callback(engine.dispose)
        async with engine.connect() as connection:
            await check_application_role(connection)
        keys = await asyncio.to_thread(open_keys, settings, at=clock()) if works else None
        resources = await asyncio.to_thread(TheatreResources.of, settings, clock=clock, keys=keys)
        change_listener = ChangeListener(address)
        await stack.enter_async_context(change_listener.listen())
        store_monitor = StoreMonitor(resources.store)
        await stack.enter_async_context(running(store_monitor.monitor()))
        workers = None
        if keys is not None:
            await publish_trust(engine, keys.trust, at=clock())
            # Before the workers, whose runs wait for it, and after them on the way out.
            await stack.enter_async_context(running(write_log(engine, change_listener, keys)))
            workers = workers_of(address, engine, resources, change_listener, settings)
            await stack.enter_async_context(workers.working())
            await stack.enter_async_context(running(clean_up_periodically(engine, resources)))
        yield Runtime(
            engine=engine,
            resources=resources,
            change_listener=change_listener,
            store_monitor=store_monitor,
            workers=workers,
        )


async def work(settings: Settings, stop: asyncio.Event) -> None:
    """Run theatres until `stop` is set, and hand over what is under way then; errors as above."""
    async with open_runtime(settings, works=True):
        await stop.wait()
