"""The long-lived parts of one process of the service. Made by the lifespan."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.api.certificate_cache import CertificateCache
from backend.api.http.metrics import Metrics, TheatreMetrics
from backend.api.http.rate_limits import RateLimits
from backend.auth.credentials import Passwords
from backend.auth.tokens import Tokens
from backend.errors import NotReadyError
from backend.jobs.announcements import ChangeListener
from backend.services.integrity.retention import StoreMonitor
from backend.services.resources import TheatreResources
from backend.services.routing import RunRecords
from backend.settings import Settings
from theatre.engine.clock import Clock

ReadyCheck = Callable[[], Awaitable[None]]
"""Returns where something answers; raises NotReadyError where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The long-lived parts, as routes and dependencies get them."""

    settings: Settings
    engine: AsyncEngine
    tokens: Tokens
    passwords: Passwords
    clock: Clock
    metrics: Metrics
    theatre_metrics: TheatreMetrics
    ready_checks: Mapping[str, ReadyCheck]
    resources: TheatreResources
    store_monitor: StoreMonitor
    change_listener: ChangeListener
    certificates: CertificateCache
    run_records: RunRecords
    stopping: asyncio.Event
    """Set when the process takes no more requests."""
    rates: RateLimits
    admission: asyncio.Semaphore
    """Each may take two connections: half of the pool must stay free for other requests."""


def get_service(request: Request) -> Service:
    """Return the service that a request came to."""
    return cast("Service", request.state.service)


# Admission: requests that hold connections for long, or need a second one, are limited.
#
# Otherwise as many of them as there are connections would wait for each other, and all other
# requests for them (docs/design/service.md, "An admission semaphore for long requests").


_PATIENCE_SECONDS = 20.0


async def acquire_admission(request: Request) -> AsyncIterator[None]:
    """Wait for the semaphore and hold it until the transaction that follows is over.

    NotReadyError after too long a wait. The body is read before: a slow sender must not hold it.
    """
    turns = get_service(request).admission
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await turns.acquire()
    except TimeoutError:
        raise NotReadyError("expected a turn in time, got none") from None
    try:
        yield
    finally:
        turns.release()


# Acquired before the transaction begins, and released after it.
Admission = Annotated[None, Depends(acquire_admission, scope="function")]
