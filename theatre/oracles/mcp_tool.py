"""`mcp@1`: a tool of an MCP server as a construct, over stdio or streamable HTTP.

The tool as the server lists it is pinned by its hash: name, description and schemas are what the
model behind a tool is steered by. Each session looks it up again before the first call, and so does
the call after the server says that its list changed. The official SDK speaks the protocol; a server
on stdio is started as any local program is, isolated.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import httpx2
from mcp import ClientSession, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from yarl import URL

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.clock import Clock
from theatre.engine.errors import PinMismatchError, TheatreError
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    Isolation,
    OracleInvocationRequest,
    pinned_version,
)
from theatre.oracles.child_process import ChildProcess
from theatre.oracles.construct_files import BoundProgram, CurrentProgram
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.guarded_client import GuardedTransport
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits, construct_environment
from theatre.oracles.outbound_policy import Distance, OutboundPolicy, connect_once, system_lookup
from theatre.oracles.plain_call import AnswerForm, PlainAdapter, PlainSettings, Said, fill
from theatre.oracles.wire_forms import CallFailure, RequestHeaders

_MAX_STREAM_BYTES = 8 * MAX_ANSWER_BYTES
_MAX_COMPLAINT_BYTES = MAX_ERROR_DETAIL - 400
_START_SECONDS = 30.0
_LISTED = 8
_MAX_PAGES = 100
_LOST = frozenset({types.CONNECTION_CLOSED, types.INVALID_REQUEST})
"""What a call ends with whose session is over: its server ended, or was started anew."""

Streams = tuple[Any, Any]
_T = TypeVar("_T")


class ToolSettings(PlainSettings):
    """Which tool is called, as which list named it, and with what."""

    tool: str
    tool_sha256: str
    arguments: dict[str, Any] | None = None
    key_env: str | None = None


class ServerWay(Protocol):
    """A way to one MCP server."""

    @property
    def version(self) -> str:
        """Return the version of program or place, with the settings."""

    def open(self) -> contextlib.AbstractAsyncContextManager[Streams]:
        """Open the streams of a new session."""

    async def probe(self, closed: Sequence[Path]) -> Isolation:
        """Return what the server can reach."""

    def complaints(self) -> str | None:
        """Return what the server printed on stderr since the last time."""

    async def connect(self) -> None:
        """Try the way without a session; raises ConstructUnreachableError."""

    def hide(self, text: str) -> str:
        """Return a text without secrets."""

    def release(self) -> None:
        """Let go of what is held between sessions."""


class ProgramWay:
    """A server that is started here and speaks on stdin and stdout."""

    def __init__(
        self,
        bind: Callable[[], BoundProgram],
        written: JsonObject,
        *,
        limits: ProcessLimits,
        reach: Reach,
    ) -> None:
        def bind_with_settings() -> BoundProgram:
            program = bind()
            return program._replace(version=pinned_version("mcp", program.version, written))

        self._program = CurrentProgram(bind_with_settings)
        self._limits = limits
        self._reach = reach
        self._process: ChildProcess | None = None

    @property
    def version(self) -> str:
        """Return the hash of program and settings."""
        return self._program.version

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """Start the program; on leaving, it is ended with all that it started."""
        program = await self._program.bound()
        process = ChildProcess(
            program.argv,
            environment=construct_environment(program.version),
            limits=self._limits,
            reach=self._reach._replace(reading=program.reading),
            line_limit=_MAX_STREAM_BYTES,
            complaint_limit=_MAX_COMPLAINT_BYTES,
        )
        self._process = process
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            async with to_session:
                while (line := await process.receive()) is not None:
                    if len(line) > _MAX_STREAM_BYTES:
                        self._last_words = f"a line of more than {_MAX_STREAM_BYTES} bytes\n"
                        break
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await to_session.send(_message_of(line))

        async def write() -> None:
            async with from_session:
                async for one in from_session:
                    text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.send(text.encode() + b"\n")

        try:
            await process.wait_for_launch()
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                group.start_soon(write)
                yield from_server, to_server
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop_gently()
                await process.end()
            self._last_words = process.complaints() + self._last_words
            self._process = None
            process.close()

    _last_words = ""

    async def probe(self, closed: Sequence[Path]) -> Isolation:
        """Return what a program started now can reach."""
        return await asyncio.to_thread(probe_isolation, closed, self._reach)

    def complaints(self) -> str | None:
        """Return what the program printed on stderr since the last time."""
        words, self._last_words = self._last_words, ""
        if self._process is not None:
            words += self._process.complaints()
        return words or None

    async def connect(self) -> None:
        """Copy the files, so that their faults show."""
        await self._program.bound()

    def hide(self, text: str) -> str:
        """Return the text: a program here is given no secret."""
        return text

    def release(self) -> None:
        """Remove the copy of the files."""
        self._program.release()


def _message_of(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line))
    except ValidationError as error:
        return error


class WebWay:
    """A server behind a URL, by streamable HTTP."""

    def __init__(
        self, url: str, *, version: str, headers: RequestHeaders, policy: OutboundPolicy
    ) -> None:
        self._url: URL = policy.check_url(url)
        self.version = version
        self._headers = headers
        self._policy = policy
        self._distance = Distance(policy, self._url, lookup=system_lookup)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """Open a session's streams; connections obey the policy, and no redirect leads away."""
        transport = GuardedTransport(
            self._policy, max_bytes=_MAX_STREAM_BYTES, is_refused=self._distance.refuses
        )
        client = httpx2.AsyncClient(
            transport=transport,
            headers=dict(self._headers.values),
            # How long an answer may take, the template says.
            timeout=httpx2.Timeout(30.0, read=None),
            follow_redirects=False,
            trust_env=False,
        )
        opened = streamable_http_client(
            # An answer stands there as text, and once more as what is structured.
            str(self._url),
            http_client=client,
            max_sse_event_size=_MAX_STREAM_BYTES,
        )
        async with client, opened as streams:
            yield streams

    async def probe(self, _: Sequence[Path]) -> Isolation:
        """Connect once, as for any construct behind a URL."""
        return await self._distance.probe()

    def complaints(self) -> None:
        """Return nothing: another machine's stderr is not seen."""

    async def connect(self) -> None:
        """Connect once."""
        await connect_once(self._policy, self._url, lookup=system_lookup)

    def hide(self, text: str) -> str:
        """Return a text without the values of request headers."""
        return self._headers.redacted(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def release(self) -> None:
        """Hold nothing between sessions."""


class _Session:
    """One session, alive in a task of its own: it must be left by the task that entered it."""

    def __init__(self, way: ServerWay) -> None:
        self._way = way
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live())
        self.is_stale = True
        """Whether the list of tools must be read again before the next call."""

    async def client(self) -> ClientSession:
        """Return the session once it is initialised; raises what kept it from that."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """End the session."""
        self._stop.set()
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        try:
            async with self._way.open() as (reading, writing):
                session = ClientSession(reading, writing, message_handler=self._notice)
                async with session:
                    await session.initialize()
                    self._opened.set_result(session)
                    await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever ends a session, the call that waits says it
            if not self._opened.done():
                self._opened.set_exception(error)
                # Retrieved here too: the one that waits for it may have given up.
                self._opened.exception()

    async def _notice(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.is_stale = True


class ToolAdapter(PlainAdapter):
    """Calls one tool of one server, in one session while that lasts.

    Reasons beyond `PlainAdapter`'s: `unreachable`, `tool-changed` (another tool than the pinned
    one), `tool-error` (the tool says that it failed), `protocol-error` and `too-large`.
    """

    pin = "mcp@1"

    def __init__(
        self,
        way: ServerWay,
        settings: ToolSettings,
        *,
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(clock=clock, monotonic=monotonic)
        self.answer = settings.answer
        self._answer_is_named = "answer" in settings.model_fields_set
        self._way = way
        self._settings = settings
        self._session: _Session | None = None
        self._opening = asyncio.Lock()

    @property
    def computed_version(self) -> str:
        """Return the hash of server, tool and settings."""
        return self._way.version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what the server can reach."""
        return await self._way.probe(closed)

    async def check_reachable(self) -> None:
        """Open a session and look the tool up.

        Raises ConstructUnreachableError where there is no server, and PinMismatchError where its
        tool is not the pinned one.
        """
        await self._way.connect()
        await self._in_time(self._client())

    async def _in_time(self, asking: Awaitable[_T]) -> _T:
        """Return what a server answers before the first call; errors as `check_reachable`."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await asking
        except (PinMismatchError, ConstructUnreachableError):
            raise
        except Exception as error:
            await self._drop()
            raise ConstructUnreachableError(
                f"expected an MCP server with the tool {self._settings.tool}, got: "
                f"{self._words(error)}{_after(self._way.complaints())}; check adapter_endpoint"
            ) from error

    async def tools(self) -> dict[str, str]:
        """Return each tool that the server lists, and its hash: what `tool_sha256` pins.

        Raises ConstructUnreachableError where there is no server.
        """

        async def listed() -> dict[str, str]:
            return await self._list(await self._opened())

        await self._way.connect()
        try:
            return await self._in_time(listed())
        finally:
            await self._drop()

    async def aclose(self) -> None:
        """End the session, and the server with it where it was started here."""
        self._closed = True
        await self._drop()
        self._way.release()

    async def _ask(self, request: OracleInvocationRequest) -> Said | CallFailure:
        asked = self._settings.arguments
        arguments: Any = request.input_data if asked is None else fill(asked, request.input_data)
        try:
            client = await self._client()
            result = await client.call_tool(self._settings.tool, arguments)
        except PinMismatchError as error:
            return CallFailure(reason="tool-changed", detail=str(error))
        except asyncio.CancelledError:
            # Late: what the server still does must not reach the next call.
            await self._drop()
            raise
        except Exception as error:  # noqa: BLE001 - transports fail in many ways, and none ends a run
            if isinstance(error, MCPError) and error.code not in _LOST:
                return CallFailure(reason="protocol-error", detail=self._words(error))
            await self._drop()
            seen = self._words(error) + _after(self._way.complaints())
            detail = f"expected an answer of the MCP server, got: {seen}"
            return CallFailure(reason="unreachable", detail=detail)
        return self._read(result)

    def _read(self, result: types.CallToolResult) -> Said | CallFailure:
        blocks = [one for one in result.content if isinstance(one, types.TextContent)]
        text = self._way.hide("\n".join(one.text for one in blocks))
        structured: Any = result.structured_content
        if len(text) > MAX_ANSWER_BYTES:
            detail = f"expected at most {MAX_ANSWER_BYTES} bytes, got more"
            return CallFailure(reason="too-large", detail=detail)
        if result.is_error:
            return CallFailure(reason="tool-error", detail=text or "no reason given")
        stderr = self._way.complaints()
        if structured is None:
            return Said(text=text, stderr=stderr)
        # As text first: a secret of ours is hidden in it, and the reader is as strict as ever.
        written = self._way.hide(json.dumps(structured))
        if self._answer_is_named and self.answer.source != "json":
            return Said(text=text, stderr=stderr)
        form = self.answer if self._answer_is_named else AnswerForm.model_validate({"from": "json"})
        found = form.read(written)
        if isinstance(found, CallFailure):
            return found
        return Said(text=written, output=found, stderr=stderr)

    async def _opened(self) -> ClientSession:
        if self._session is None:
            self._session = _Session(self._way)
        return await self._session.client()

    async def _client(self) -> ClientSession:
        """Return a session in which the tool is the pinned one."""
        async with self._opening:
            client = await self._opened()
            session = self._session
            if session is not None and session.is_stale:
                session.is_stale = False
                try:
                    self._require_pinned(await self._list(client))
                except BaseException:
                    session.is_stale = True
                    raise
            return client

    def _require_pinned(self, found: dict[str, str]) -> None:
        name, pinned = self._settings.tool, self._settings.tool_sha256
        if name not in found:
            listed = ", ".join(list(found)[:_LISTED]) or "none"
            raise PinMismatchError(f"expected the tool {name}, got a server with: {listed}")
        if found[name] != pinned:
            raise PinMismatchError(
                f"expected the tool {name} as tool_sha256 pins it, {pinned}, got {found[name]}: "
                "its description or schema changed; commit a new theatre for the new one"
            )

    async def _list(self, client: ClientSession) -> dict[str, str]:
        found: dict[str, str] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
            page = await client.list_tools(params=params)
            for tool in page.tools:
                listed = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                found[tool.name] = canonical_sha256(listed)
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _words(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TheatreError | MCPError) or str(error):
            return self._way.hide(str(error))[:300]
        return type(error).__name__


def _after(complaints: str | None) -> str:
    lines = (complaints or "").strip().splitlines()
    return f"; it printed: {lines[-1][:200]}" if lines else ""
