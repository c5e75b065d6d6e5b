"""Connections of one process: how many, and by when the head of a request has to be there.

uvicorn over httptools has neither limit. Both are kept in one list here: the connections that have
no request at work, the longest waiting first. A head that is late ends its connection with 408.
Where there are as many connections as may be, the one that has waited longest makes room for a new
one: who sends heads slowly loses the connection, who sends one at once is answered.
"""

from __future__ import annotations

import asyncio
import resource
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from backend.settings import Settings

RESERVED_FILES = 128
"""Descriptors for what is not a client: database, evidence store, programs, files that are read."""

_MAX_HEAD_BYTES = 64 * 1024
_STALLED_SECONDS = 60.0
"""Seconds in which a client has to read something of an answer that is too large to be sent on."""

_LINGER_SECONDS = 0.1
_FEWEST = 8
_LATE = b"408 Request Timeout", b"expected the whole head of a request in time, got a part of it"
_TOO_LARGE = (
    b"431 Request Header Fields Too Large",
    b"expected a head of at most 65536 bytes, got more",
)
_FULL = (
    b"503 Service Unavailable",
    b"expected a connection to be free, got none: try again in a second",
)


def most_connections(settings: Settings, *, open_files: int | None = None) -> int:
    """Return how many connections fit: `open_files` is this process's limit of descriptors."""
    if open_files is None:
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if open_files == resource.RLIM_INFINITY:
        return settings.connections
    return max(_FEWEST, min(settings.connections, open_files - RESERVED_FILES))


class Connections:
    """The connections of one process. `protocol` is what uvicorn makes each of them with."""

    def __init__(self, settings: Settings) -> None:
        self._most = most_connections(settings)
        self._head_seconds = settings.head_seconds
        self._all: set[LimitedProtocol] = set()
        # By insertion: all wait equally long, so the first is the next that is late.
        self._waiting: dict[LimitedProtocol, float] = {}
        self._look: asyncio.TimerHandle | None = None

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol within these limits, as `uvicorn.Config(http=…)` takes it."""
        # uvicorn calls it and nothing else.
        return cast("type[asyncio.Protocol]", partial(LimitedProtocol, self))

    def admit(self, one: LimitedProtocol) -> bool:
        """Count a new connection; False where it is one too many and no other makes room."""
        if len(self._all) >= self._most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.forget(longest)
            # At once, unsent bytes and all: its descriptor is needed.
            longest.transport.abort()
        self._all.add(one)
        self.wait(one)
        return True

    def wait(self, one: LimitedProtocol) -> None:
        """Give a connection without a request until the deadline of its next head."""
        self._waiting.pop(one, None)
        self._waiting[one] = one.loop.time() + self._head_seconds
        if self._look is None:
            self._look = one.loop.call_later(self._head_seconds, self._end_late, one.loop)

    def work(self, one: LimitedProtocol) -> None:
        """Take a connection whose head is there off the list of those that wait."""
        self._waiting.pop(one, None)

    def forget(self, one: LimitedProtocol) -> None:
        """Take a connection that is ended out of the count."""
        self._all.discard(one)
        self._waiting.pop(one, None)
        if not self._waiting and self._look is not None:
            self._look.cancel()
            self._look = None

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look = None
        now = loop.time()
        for one, deadline in list(self._waiting.items()):
            if deadline > now:
                self._look = loop.call_at(deadline, self._end_late, loop)
                return
            self._waiting.pop(one)
            one.refuse(*_LATE)


class LimitedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's protocol, which tells `limits` when it waits and when it works."""

    def __init__(self, limits: Connections, **given: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**given)
        self.limits = limits
        self._head_bytes = 0
        self._in_head = True
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Begin to wait for a head."""
        super().connection_made(transport)
        if not self.limits.admit(self):
            self.refuse(*_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room."""
        self.limits.forget(self)
        self._set_stalled(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what is a head, which httptools takes without end."""
        if self.transport.is_closing():
            return
        was_in_head = self._in_head
        super().data_received(data)
        # The piece in which a head begins is not counted: it may hold the body before.
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self.refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin with a head."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take what belongs to a head; what trails a body is not kept, and so not without end."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with a request."""
        self._in_head = False
        self.limits.work(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next head, unless one is there already."""
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            self._set_stalled(_STALLED_SECONDS)
        elif not has_next:
            self.limits.wait(self)

    def pause_writing(self) -> None:
        """Give a client that does not read its answer some time."""
        super().pause_writing()
        self._set_stalled(_STALLED_SECONDS)

    def resume_writing(self) -> None:
        """Go on with a client that reads again."""
        super().resume_writing()
        self._set_stalled(None)

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that waits, also where its client has not read the last answer."""
        super().timeout_keep_alive_handler()
        self._set_stalled(_STALLED_SECONDS)

    def refuse(self, status: bytes, reason: bytes) -> None:
        """Answer in text, as uvicorn does what is no HTTP, and end the connection."""
        if self.transport.is_closing():
            # What is left of an answer is still being read, or it is not.
            if self._stalled is None:
                self._set_stalled(_STALLED_SECONDS)
            return
        is_answering = bool(self.cycle) and not self.cycle.response_complete
        if not is_answering:
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                b"retry-after: 1\r\ncontent-length: %d\r\n\r\n%b" % (status, len(reason), reason)
            )
        self.transport.close()
        self._set_stalled(_LINGER_SECONDS)

    def _set_stalled(self, seconds: float | None) -> None:
        """End the connection in so many seconds, whatever is unsent; None: not any more."""
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = (
            None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
        )
