"""What operators and their programs ask: alive, ready, which release, how it goes."""

import asyncio
from importlib.metadata import version
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from backend.api.http.access_policy import public, resource_router
from backend.api.http.metrics import CONTENT_TYPE
from backend.api.http.problem_types import BY_SLUG
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.database.migrations import head_revision
from backend.errors import NotReadyError
from backend.schemas.base import (
    Alive,
    ClosedTo,
    ProblemExplanation,
    Ready,
    ReadyDetails,
    VersionDocument,
)
from theatre.engine.errors import NotFoundError

router = resource_router("operations")
_PATIENCE_SECONDS = 0.5
_STORE = "evidence-store"


@router.get("/livez")
@public(rate=Rate.UNLIMITED)
async def alive() -> Alive:
    """Tell that the process answers; nothing else is checked."""
    return Alive(status="alive")


@router.get("/readyz")
@public("not-ready", rate=Rate.UNLIMITED)
async def ready(
    request: Request,
    *,
    whole: Annotated[bool, Query(description="503 also where it is only degraded")] = False,
) -> Ready:
    """Tell that everything answers that requests need; 503 otherwise.

    An evidence store that is away makes it degraded, not unready: what is read from the database
    is served on, and no other process would have the store either. A load balancer asks
    without `whole`; an alarm that looks only at the status asks with it.
    """
    service = get_service(request)
    checks = service.ready_checks
    # Probed once a process: after the first time this only reads the cached result.
    isolation = await asyncio.to_thread(service.resources.constructs.isolation)
    details = ReadyDetails(isolation=ClosedTo.model_validate(isolation.as_document()))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for check in checks.values():
                await check()
    except TimeoutError:
        raise NotReadyError("expected every check to answer in time") from None
    if service.store_monitor.trouble is not None:
        if whole:
            raise NotReadyError("expected an evidence store that takes something, got one away")
        return Ready(status="degraded", checks=sorted(checks), failing=[_STORE], details=details)
    return Ready(status="ready", checks=sorted([*checks, _STORE]), failing=[], details=details)


@router.get("/version", operation_id="version")
@public()
async def show_version() -> VersionDocument:
    """Return the release and the revision of its database."""
    return VersionDocument(version=version("echelon-theatre"), migration=head_revision())


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@public(rate=Rate.UNLIMITED)
async def metrics(request: Request) -> Response:
    """Return the measurements in Prometheus's text format."""
    service = get_service(request)
    await service.theatre_metrics.count()
    return Response(service.metrics.render(), media_type=CONTENT_TYPE)


@router.get("/problems/{slug}")
@public("not-found")
async def explain_problem(slug: str) -> ProblemExplanation:
    """Explain a kind of problem: the `type` of a problem document leads here."""
    kind = BY_SLUG.get(slug)
    if kind is None:
        raise NotFoundError("expected the name of a kind of problem, got another")
    return ProblemExplanation(
        type=f"/problems/{kind.slug}",
        title=kind.title,
        status=kind.status,
        explanation=kind.explanation,
    )
