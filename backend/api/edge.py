"""The outermost middleware: request id, access log, metrics, and the answer to unhandled errors."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.declared_routes import sharing_headers
from backend.api.metrics import Metrics
from backend.api.problem_kinds import INTERNAL
from backend.api.problems import problem_response

UNMATCHED = "unmatched"
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_log = logging.getLogger(__name__)


class RequestMiddleware:
    """The outermost middleware: unhandled exceptions are logged here and answered with a 500."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A copy for this request: the state of the lifespan must not change.
        scope["state"] = {**scope.get("state", {}), "request_id": str(uuid4())}
        answer = _Answer(scope, send)
        began = time.perf_counter()
        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            pass  # The client has closed the connection.
        except Exception as error:  # noqa: BLE001 - the boundary: nothing is let out of here
            await self._fail(error, scope, receive, answer)
        finally:
            self._metrics.in_progress.dec()
            self._log_request(scope, answer.status, time.perf_counter() - began)

    async def _fail(
        self, error: Exception, scope: Scope, receive: Receive, answer: _Answer
    ) -> None:
        _log.error(
            "request failed",
            exc_info=error,
            extra={"fields": {"request_id": scope["state"]["request_id"]}},
        )
        if answer.status is None:
            await problem_response(Request(scope), INTERNAL)(scope, receive, answer.send)

    def _log_request(self, scope: Scope, status: int | None, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNMATCHED)
        # 499: the client closed the connection before there was an answer.
        self._metrics.observe(route, scope["method"], status or 499, seconds)
        principal = scope["state"].get("principal")
        fields = {
            "request_id": scope["state"]["request_id"],
            "route": route,
            "method": scope["method"][:20],
            "status": status or 499,
            "seconds": round(seconds, 6),
            "user_id": principal and principal.user_id,
        }
        _log.info("request", extra={"fields": fields})


class _Answer:
    """Passes an answer on, and records its status once it has begun."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in (_SECURITY | sharing_headers(self._scope)).items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)
