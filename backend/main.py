"""The application: what it is made of, and what lives as long as it runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from fastapi import APIRouter, FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.routing import BaseRoute

from backend.api import (
    account_routes,
    audit_routes,
    certificate_routes,
    debate_routes,
    event_routes,
    evidence_routes,
    log_routes,
    operation_routes,
    page_routes,
    rating_routes,
    run_routes,
    template_routes,
    theatre_page_routes,
    theatre_routes,
    verification_routes,
)
from backend.api.certificate_cache import CertificateCache, CertificateCacheMiddleware
from backend.api.http.forwarded import ForwardedMiddleware
from backend.api.http.metrics import Metrics, TheatreMetrics
from backend.api.http.middleware import (
    BodyLimitMiddleware,
    RequestMiddleware,
    SafeMethodsMiddleware,
    limits_of,
)
from backend.api.http.openapi import DescribedApi
from backend.api.http.problems import install_problem_handlers
from backend.api.http.rate_limits import RateLimits
from backend.api.http.service import ReadyCheck, Service
from backend.auth.credentials import Passwords
from backend.auth.signing_keys import KeyFile, make_key_file
from backend.auth.tokens import Tokens
from backend.database.migrations import head_revision
from backend.database.sessions import POOL_SIZE
from backend.errors import NotReadyError
from backend.runtime import now, open_runtime
from backend.services.routing import RunRecords
from backend.services.runs.attempt import check_heartbeat
from backend.settings import Settings
from theatre.engine.clock import Clock

PREFIX = "/api/v1"
LITERAL = "/api"
"""Verifications are served below it, too: the path of docs/requirements.md R87."""
RESOURCES = (
    account_routes.router,
    account_routes.keys,
    theatre_routes.router,
    run_routes.router,
    certificate_routes.router,
    audit_routes.router,
    account_routes.constructs,
    account_routes.budgets,
    log_routes.router,
    evidence_routes.router,
    event_routes.router,
    rating_routes.router,
    template_routes.datasets,
    template_routes.router,
    debate_routes.router,
    verification_routes.router,
)
"""Served below `/api/v1` and, outside the description of the interface, without it."""

PAGES = (
    page_routes.router,
    page_routes.certificates,
    page_routes.shared,
    theatre_page_routes.router,
    theatre_page_routes.shared,
    page_routes.constructs,
)
"""For people: outside the description of the interface. The last is asked after all others."""

_Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[dict[str, object]]]


def create_app(
    settings: Settings, *, clock: Clock = now, stopping: asyncio.Event | None = None
) -> FastAPI:
    """Return the application. It opens and closes its database in its lifespan.

    The server sets `stopping` when it takes no more requests: requests that only wait then end.
    The lifespan raises SigningKeysError, EmbeddedServerError, MigrationError, DatabaseRoleError.
    """
    metrics, certificates = Metrics(), CertificateCache(clock)
    app = DescribedApi(
        title="Echelon Theatre",
        version=version("echelon-theatre"),
        lifespan=_lifespan(settings, metrics, certificates, clock, stopping or asyncio.Event()),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own records would keep bodies and what was wrong with them.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    install_problem_handlers(app)
    app.add_middleware(BodyLimitMiddleware, limit_of=limits_of(settings))
    app.add_middleware(CertificateCacheMiddleware, cache=certificates)
    app.add_middleware(SafeMethodsMiddleware)
    app.add_middleware(RequestMiddleware, metrics=metrics)
    app.add_middleware(ForwardedMiddleware, trusted=settings.trusted_proxies)
    app.router.routes += _routes()
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Return the routes of every application of a process: what they declare is read once."""
    every = APIRouter()
    every.include_router(operation_routes.router)
    # Before the interface for programs: a page at a path of both is asked first.
    *before, last = PAGES
    for pages in before:
        every.include_router(pages, include_in_schema=False)
    every.include_router(page_routes.certificates, prefix=PREFIX, include_in_schema=False)
    for router in RESOURCES:
        every.include_router(router, prefix=PREFIX)
        every.include_router(router, include_in_schema=False)
    every.include_router(verification_routes.router, prefix=LITERAL, include_in_schema=False)
    every.include_router(last, include_in_schema=False)
    return every.routes


def _lifespan(
    settings: Settings,
    metrics: Metrics,
    certificates: CertificateCache,
    clock: Clock,
    stopping: asyncio.Event,
) -> _Lifespan:
    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[dict[str, object]]:
        keys = KeyFile(await asyncio.to_thread(_key_file, settings))
        async with open_runtime(settings, works=settings.worker_in_api, clock=clock) as runtime:
            theatre_metrics = TheatreMetrics(runtime.engine)
            metrics.registry.register(theatre_metrics)
            yield {
                "service": Service(
                    settings=settings,
                    engine=runtime.engine,
                    tokens=Tokens(keys, issuer=settings.issuer, clock=clock),
                    passwords=Passwords(),
                    clock=clock,
                    metrics=metrics,
                    theatre_metrics=theatre_metrics,
                    ready_checks={
                        "database": _database_check(runtime.engine),
                        "worker": partial(
                            check_heartbeat,
                            runtime.engine,
                            lease_seconds=settings.lease_seconds,
                            own=runtime.workers,
                        ),
                    },
                    resources=runtime.resources,
                    store_monitor=runtime.store_monitor,
                    change_listener=runtime.change_listener,
                    certificates=certificates,
                    run_records=RunRecords(),
                    stopping=stopping,
                    rates=RateLimits(settings),
                    admission=asyncio.Semaphore(POOL_SIZE // 4),
                )
            }

    return living


def _key_file(settings: Settings) -> Path:
    if settings.jwt_keys is not None:
        return settings.jwt_keys
    made = settings.home / "keys" / "tokens.json"
    make_key_file(made)
    return made


def _database_check(engine: AsyncEngine) -> ReadyCheck:
    expected = head_revision()

    async def check() -> None:
        async with engine.connect() as connection:
            seen = await connection.scalar(text("SELECT version_num FROM alembic_version"))
        if seen != expected:
            raise NotReadyError(f"expected a database at revision {expected}, got {seen}")

    return check
