"""`Prefer: wait=N` (RFC 7240): a response that waits until a run is over."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fastapi import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

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
