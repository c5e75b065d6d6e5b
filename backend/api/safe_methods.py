"""HEAD and OPTIONS (RFC 9110 §9.3) for every path, without separate routes."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.route_methods import allowed_methods


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
