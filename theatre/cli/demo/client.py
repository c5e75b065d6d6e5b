"""A client of the service over HTTP: without an account, or as one of the demo's users."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import TheatreError

BASE = "/api/v1"
_SECONDS = 90.0
_RUN_SECONDS = 900.0
_CHUNK_BYTES = 65536
_OVER = frozenset({"hitl", "end"})
TAKEN = 409
T = TypeVar("T")


class DemoError(TheatreError):
    """The service answered something else than the demo needs."""

    code = "demo"


class NoAnswerError(DemoError):
    """A request was not answered."""

    code = "demo-no-answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a request that was let through."""

    status: int
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """Return the body as the JSON object that it has to be."""
        return parse_object(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceClient:
    """Asks one service; every method blocks. Raises NoAnswerError, and DemoError for refusals."""

    runner: asyncio.Runner
    session: aiohttp.ClientSession
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    @contextlib.contextmanager
    def connected(cls, address: str) -> Iterator[Self]:
        """Open a client without an account, and close it."""
        with asyncio.Runner() as runner:
            session = runner.run(_open(address))
            try:
                yield cls(runner=runner, session=session)
            finally:
                runner.run(session.close())

    def bearing(self, token: str) -> Self:
        """Return a client of the same service with an access token."""
        return replace(self, headers={"Authorization": f"Bearer {token}"})

    def get(self, path: str, **query: str) -> Answer:
        """GET a path below the base."""
        return self._run(self._ask("GET", path, params=query))

    def post(
        self, path: str, document: Mapping[str, Any] | None = None, *, expected: int | None = None
    ) -> Answer:
        """POST a document; `expected` is the one status besides 2xx that is let through."""
        asked = self._ask("POST", path, expected=expected, json=document)
        return self._run(asked)

    def post_form(self, path: str, **fields: str) -> Answer:
        """POST a form."""
        return self._run(self._ask("POST", path, data=fields))

    def download(self, path: str, target: Path) -> int:
        """Write what a path gives into `target`; return the number of bytes."""
        target.parent.mkdir(parents=True, exist_ok=True)
        return self._run(self._download(path, target))

    def watch(self, path: str, on_change: Callable[[JsonObject], None]) -> dict[str, Any]:
        """Follow a theatre's events until its run is over or waits for people; return it then."""
        return self._run(self._watch(f"{path}/events", on_change))

    def _run(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            return self.runner.run(asked)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            said = str(error) or type(error).__name__
            raise NoAnswerError(f"expected the service to answer, got: {said}") from error

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        expected: int | None = None,
        **sent: Any,  # noqa: ANN401 - arguments of aiohttp's
    ) -> Answer:
        asked = self.session.request(method, f"{BASE}{path}", headers=self.headers, **sent)
        async with asked as answer:
            body = await answer.read()
            if not answer.ok and answer.status != expected:
                raise _refusal(method, path, answer.status, body)
            return Answer(status=answer.status, body=body)

    async def _download(self, path: str, target: Path) -> int:
        size = 0
        async with self.session.get(f"{BASE}{path}", headers=self.headers) as answer:
            if not answer.ok:
                raise _refusal("GET", path, answer.status, await answer.read())
            with target.open("wb") as handle:
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    size += handle.write(chunk)
        return size

    async def _watch(self, path: str, on_change: Callable[[JsonObject], None]) -> dict[str, Any]:
        seen = "0"
        async with asyncio.timeout(_RUN_SECONDS):
            while True:
                # A stream ends after a while, and is asked for again behind what was seen.
                headers = {**self.headers, "Last-Event-ID": seen}
                async with self.session.get(f"{BASE}{path}", headers=headers) as answer:
                    if not answer.ok:
                        raise _refusal("GET", path, answer.status, await answer.read())
                    async for event in _events(answer.content):
                        seen, theatre = event["id"], parse_object(event["data"].encode())
                        on_change(theatre)
                        if event["event"] in _OVER:
                            return theatre


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[dict[str, str]]:
    """Yield the server-sent events of a stream that have data, as field → value."""
    event: dict[str, str] = {}
    async for line in stream:
        name, _, value = line.decode("utf-8").rstrip("\n").partition(": ")
        if name:
            event[name] = value
        else:
            if "data" in event:
                yield event
            event = {}


async def _open(address: str) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    # A connection for each request: between two the service may have closed an idle one.
    connector = aiohttp.TCPConnector(force_close=True)
    return aiohttp.ClientSession(address, connector=connector, timeout=timeout)


def _refusal(method: str, path: str, status: int, body: bytes) -> DemoError:
    try:
        problem = json.loads(body)
        said = f"{problem['title']}: {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        said = repr(body[:200])
    return DemoError(f"expected {method} {BASE}{path} to be let through, got {status}, {said}")


# The users of the demo.


def sign_in(
    anybody: ServiceClient, names: Sequence[str], passwords: Path
) -> dict[str, ServiceClient]:
    """Return a client for each user, registered if need be, by name.

    `passwords` is the file with theirs; it is made for the first demo in its folder.
    """
    clients = {}
    for name, password in _read_passwords(names, passwords).items():
        user = {"username": name, "email": f"{name}@example.org", "password": password}
        anybody.post("/auth/register", user, expected=TAKEN)
        token = anybody.post_form("/auth/token", username=name, password=password).document
        clients[name] = anybody.bearing(token["access_token"])
    return clients


def _read_passwords(names: Sequence[str], path: Path) -> Mapping[str, str]:
    """Return user → password, made once for a home and readable by its owner alone."""
    if not path.exists():
        made = {name: secrets.token_urlsafe(24) for name in names}
        draft = path.with_suffix(".partial")
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(made, file, indent=2)
        draft.replace(path)
    return {name: str(word) for name, word in parse_object(path.read_bytes()).items()}
