"""The outermost middleware: request id, access log, metrics, and the answer to unhandled errors."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.http.access_policy import sharing_headers
from backend.api.http.metrics import Metrics
from backend.api.http.problem_types import INTERNAL
from backend.api.http.problems import allowed_methods, problem_response
from backend.errors import RequestRefusedError
from backend.settings import MEBIBYTE, Settings

# Limits of a body, before anything reads it: how many bytes, and by when all of them.


MAX_DATASET_BYTES = 64 * MEBIBYTE
_DATASET_SECONDS = 300.0
_DATASETS = re.compile(r"(?:/api/v1)?/datasets")


class BodyLimit(NamedTuple):
    """How much, and how long from the head of the request to the end of its body."""

    max_bytes: int
    seconds: float


def limits_of(settings: Settings) -> Callable[[str], BodyLimit]:
    """Return the limit by path: datasets are streamed and may be larger."""
    usual = BodyLimit(settings.max_body_bytes, settings.body_seconds)
    datasets = BodyLimit(MAX_DATASET_BYTES, max(_DATASET_SECONDS, settings.body_seconds))

    def limit_of(path: str) -> BodyLimit:
        return datasets if _DATASETS.fullmatch(path) else usual

    return limit_of


class BodyLimitMiddleware:
    """Counts and times a body as it is received.

    Reading past a limit raises RequestRefusedError; a body that is announced as too large is
    refused unread.
    """

    def __init__(self, app: ASGIApp, *, limit_of: Callable[[str], BodyLimit]) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            receive = _LimitedBody(scope, receive, self._limit_of(scope["path"])).receive
        await self._app(scope, receive, send)


class _LimitedBody:
    def __init__(self, scope: Scope, receive: Receive, limit: BodyLimit) -> None:
        self._receive = receive
        self._limit = limit
        self._deadline = asyncio.get_running_loop().time() + limit.seconds
        self._announced = _announced(scope)
        self._got = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next message of a body that keeps its limit."""
        if self._whole:
            return await self._receive()
        if self._announced > self._limit.max_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefusedError(
                "request-timeout",
                f"expected the whole body within {self._limit.seconds:g} s, got a part of it",
            ) from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._got > self._limit.max_bytes:
                raise self._too_large()
        return message

    def _too_large(self) -> RequestRefusedError:
        return RequestRefusedError(
            "content-too-large", f"expected at most {self._limit.max_bytes} bytes, got more"
        )


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


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
        self, error: Exception, scope: Scope, receive: Receive, answer: "_Answer"
    ) -> None:
        _log.error(
            "request failed",
            exc_info=error,
            extra={"fields": {"request_id": scope["state"]["request_id"]}},
        )
        if answer.status is None:
            await problem_response(Request(scope), INTERNAL)(scope, receive, answer.send)

    def _log_request(self, scope: Scope, status: int | None, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", UNMATCHED)
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
        if "cause" in scope["state"]:
            fields["cause"] = scope["state"]["cause"]
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
            if self._scope["state"].get("negotiated"):
                headers.add_vary_header("Accept")
        await self._send(message)


# HEAD and OPTIONS (RFC 9110 §9.3) for every path, without separate routes.


class SafeMethodsMiddleware:
    """Answers HEAD as GET without a body, and OPTIONS with the allowed methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._head(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "OPTIONS":
            await self._options(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def head_only(message: Message) -> None:
            if message["type"] != "http.response.start":
                return
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            # HEAD must not read a body or keep a stream open to throw it away.
            raise _HeadSentError

        scope["method"] = "GET"
        try:
            await self._app(scope, receive, head_only)
        except _HeadSentError:
            pass
        finally:
            scope["method"] = "HEAD"

    async def _options(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = allowed_methods(Request(scope))
        if not allowed:
            await self._app(scope, receive, send)
            return
        await Response(status_code=204, headers={"Allow": ", ".join(allowed)})(scope, receive, send)


class _HeadSentError(Exception):
    """The head of the response is sent; the body is not wanted."""
