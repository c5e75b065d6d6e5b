"""Limits of a body, before anything reads it: how many bytes, and by when all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.errors import BodyTimeoutError, BodyTooLargeError
from backend.settings import MEBIBYTE, Settings

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

    Reading past a limit raises BodyTooLargeError or BodyTimeoutError; a body that is announced as
    too large is refused unread.
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
            raise BodyTimeoutError(
                f"expected the whole body within {self._limit.seconds:g} s, got a part of it"
            ) from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._got > self._limit.max_bytes:
                raise self._too_large()
        return message

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(f"expected at most {self._limit.max_bytes} bytes, got more")


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0
