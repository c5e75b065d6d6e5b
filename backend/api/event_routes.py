"""Server-sent events of one theatre (HTML, "Server-sent events")."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from backend.api.declared_routes import CurrentUser, for_owner, resource_router
from backend.api.service import Service, service_of
from backend.api.theatre_documents import theatre_document
from backend.auth.principals import Scope
from backend.services.theatre_events import theatre_events
from backend.services.theatres import own_theatre

DECLARED = {"watch_theatre": for_owner(Scope.READ)}
router = resource_router("events", DECLARED)
_RETRY = b"retry: 1000\n\n"
_HIGHEST = 2**31 - 1


@router.get("/theatres/{theatre_id}/events", operation_id="watch_theatre", response_class=Response)
async def watch_theatre(request: Request, user: CurrentUser, theatre_id: UUID) -> Response:
    """Watch a theatre: state, progress, hitl, end. `Last-Event-ID` resumes."""
    service = service_of(request)
    async with service.engine.connect() as connection:
        await own_theatre(connection, str(theatre_id), user_id=user.user_id)
    after = request.headers.get("last-event-id", "")
    seen = min(int(after), _HIGHEST) if after.isascii() and after.isdigit() else 0
    stream = _written(service, str(theatre_id), user_id=user.user_id, after=seen)
    return StreamingResponse(stream, media_type="text/event-stream")


async def _written(
    service: Service, theatre_id: str, *, user_id: str, after: int
) -> AsyncIterator[bytes]:
    yield _RETRY
    events = theatre_events(service.engine, theatre_id, user_id=user_id, after=after)
    async with aclosing(events):
        async for kind, view in events:
            shown = theatre_document(view, now=service.clock()).model_dump_json()
            yield f"id: {view.version}\nevent: {kind}\ndata: {shown}\n\n".encode()
