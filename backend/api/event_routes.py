"""Server-sent events of one theatre (HTML, "Server-sent events")."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from uuid import UUID

from fastapi import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backend.api.http.access_policy import CurrentUser, for_owner, resource_router
from backend.api.http.openapi import describe_headers
from backend.api.http.service import Service, get_service
from backend.api.theatre_routes import theatre_document
from backend.auth.credentials import Principal
from backend.auth.credentials import Scope as KeyScope
from backend.services.runs.runs import theatre_events
from backend.services.theatres import read_theatre

router = resource_router("events")
_STREAM = "text/event-stream"
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "the last event that was received: later ones are sent",
    "schema": {"type": "string"},
}
_RETRY = b"retry: 1000\n\n"
_HIGHEST = 2**31 - 1


@router.get(
    "/theatres/{theatre_id}/events",
    response_class=Response,
    responses={
        200: {"description": "Events", "content": {_STREAM: {"schema": {"type": "string"}}}}
    },
    openapi_extra=describe_headers(_LAST_EVENT_ID),
)
@for_owner(KeyScope.READ, "not-found")
async def watch_theatre(request: Request, user: CurrentUser, theatre_id: UUID) -> Response:
    """Watch a theatre: state, progress, hitl, budget, end. `Last-Event-ID` resumes."""
    return await stream_theatre(request, user, theatre_id)


async def stream_theatre(request: Request, user: Principal, theatre_id: UUID) -> Response:
    """Return the events of a user's theatre as a stream; NotFoundError where it is not theirs."""
    service = get_service(request)
    async with service.engine.connect() as connection:
        await read_theatre(connection, str(theatre_id), user_id=user.user_id)
    after = request.headers.get("last-event-id", "")
    seen = min(int(after[:20]), _HIGHEST) if after.isascii() and after.isdigit() else 0
    stream = _written(service, str(theatre_id), user_id=user.user_id, after=seen)
    service.rates.open_stream(user.user_id)
    return _CountedStream(stream, lambda: service.rates.close_stream(user.user_id))


class _CountedStream(StreamingResponse):
    """A stream that calls `ended` when it is over, even if it was never read."""

    def __init__(self, stream: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(stream, media_type=_STREAM)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _written(
    service: Service, theatre_id: str, *, user_id: str, after: int
) -> AsyncIterator[bytes]:
    yield _RETRY
    events = theatre_events(
        service.engine,
        service.change_listener,
        theatre_id,
        user_id=user_id,
        after=after,
        stopping=service.stopping,
    )
    async with aclosing(events):
        async for kind, view, usage in events:
            shown = theatre_document(view, now=service.clock()).model_dump(mode="json")
            data = json.dumps(shown | {"usage": usage})
            yield f"id: {view.version}\nevent: {kind}\ndata: {data}\n\n".encode()


# `Prefer: wait=N` (RFC 7240): a response that waits until a run is over.


MAX_WAIT_SECONDS = 60
_WAIT = re.compile(
    r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?\s*(?=$|[,;])", re.ASCII | re.IGNORECASE
)


def seconds_to_wait(request: Request) -> int:
    """Return how many seconds a client prefers to wait, at most 60; 0 without a preference."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), MAX_WAIT_SECONDS) if found else 0


class DeferredResponse(JSONResponse):
    """A 202 as it is stored under an idempotency key; what is sent is the result of `later`.

    It is sent after the request's transaction is committed: no connection is held while it waits.
    """

    def __init__(self, accepted: object, later: Callable[[], Awaitable[Response]]) -> None:
        super().__init__(accepted, 202)
        self._later = later

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait, then send."""
        response = await self._later()
        for name, value in self.headers.items():
            if name not in {"content-length", "content-type", "retry-after"}:
                response.headers.setdefault(name, value)
        await response(scope, receive, send)
