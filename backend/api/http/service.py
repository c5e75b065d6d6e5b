"""The long-lived parts of one process of the service. Made by the lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from fastapi import Request
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.api.certificate_cache import DocumentCache
from backend.api.http.metrics import Metrics, TheatreMetrics
from backend.api.http.rate_limits import RateLimits
from backend.auth.credentials import Passwords
from backend.auth.tokens import Tokens
from backend.jobs.announcements import ChangeListener
from backend.services.integrity.retention import StoreMonitor
from backend.services.resources import TheatreResources
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
    documents: DocumentCache
    stopping: asyncio.Event
    """Set when the process takes no more requests."""
    rates: RateLimits
    admission: asyncio.Semaphore
    """Each may take two connections: half of the pool must stay free for other requests."""


def get_service(request: Request) -> Service:
    """Return the service that a request came to."""
    return cast("Service", request.state.service)
