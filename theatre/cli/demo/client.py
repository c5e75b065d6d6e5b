"""A client of the service over HTTP: without an account, or as one of the demo's users."""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

from yarl import URL

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import TheatreError
from theatre.oracles.http_client import Connection, HttpClient, NoResponseError

BASE = "/api/v1"
_SECONDS = 90.0
_RUN_SECONDS = 900.0
_OVER = frozenset({"hitl", "end"})
TAKEN = 409
_REFUSED = 400
T = TypeVar("T")


class DemoError(TheatreError):
    """The service answered something else than the demo needs."""

    code = "demo"


class NoAnswerError(DemoError):
    """A request was not answered."""

    code = "demo-no-answer"


class Answer(NamedTuple):
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
    client: HttpClient
    address: URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    @contextlib.contextmanager
    def connected(cls, address: str) -> Iterator[Self]:
        """Open a client without an account, and close it."""
        # A connection for each request: between two the service may have closed an idle one.
        client = HttpClient(seconds=_SECONDS, keeps_connections=False)
        with asyncio.Runner() as runner:
            try:
                yield cls(runner=runner, client=client, address=URL(address))
            finally:
                runner.run(client.aclose())

    def bearing(self, token: str) -> Self:
        """Return a client of the same service with an access token."""
        return replace(self, headers={"Authorization": f"Bearer {token}"})

    def get(self, path: str, **query: str) -> Answer:
        """GET a path below the base."""
        return self._run(self._ask("GET", path, query=query))

    def post(
        self, path: str, document: Mapping[str, Any] | None = None, *, expected: int | None = None
    ) -> Answer:
        """POST a document; `expected` is the one status besides 2xx that is let through."""
        kind, body = "application/json", b"" if document is None else json.dumps(document).encode()
        return self._run(self._ask("POST", path, expected=expected, kind=kind, body=body))

    def post_form(self, path: str, **fields: str) -> Answer:
        """POST a form."""
        kind, body = "application/x-www-form-urlencoded", urlencode(fields).encode()
        return self._run(self._ask("POST", path, kind=kind, body=body))

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
        except (NoResponseError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            raise NoAnswerError(f"expected the service to answer, got: {said}") from error

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        expected: int | None = None,
        query: Mapping[str, str] | None = None,
        kind: str = "",
        body: bytes = b"",
    ) -> Answer:
        async def read(response: Connection) -> Answer:
            answer = Answer(status=response.status, body=await response.read())
            if answer.status >= _REFUSED and answer.status != expected:
                raise _refusal(method, path, answer.status, answer.body)
            return answer

        return await self.client.ask(
            method,
            self._url(path).update_query(query or {}),
            read=read,
            headers={**self.headers, **({"Content-Type": kind} if body else {})},
            body=body,
        )

    def _url(self, path: str) -> URL:
        return self.address.join(URL(f"{BASE}{path}"))

    async def _download(self, path: str, target: Path) -> int:
        async def write(response: Connection) -> int:
            if response.status >= _REFUSED:
                raise _refusal("GET", path, response.status, await response.read())
            size = 0
            with target.open("wb") as handle:
                while chunk := await response.read_some():
                    size += handle.write(chunk)
            return size

        return await self.client.ask("GET", self._url(path), read=write, headers=self.headers)

    async def _watch(self, path: str, on_change: Callable[[JsonObject], None]) -> dict[str, Any]:
        seen = "0"

        async def follow(response: Connection) -> dict[str, Any] | None:
            nonlocal seen
            if response.status >= _REFUSED:
                raise _refusal("GET", path, response.status, await response.read())
            async for event in _events(response):
                seen, theatre = event["id"], parse_object(event["data"].encode())
                on_change(theatre)
                if event["event"] in _OVER:
                    return theatre
            return None

        async with asyncio.timeout(_RUN_SECONDS):
            while True:
                # A stream ends after a while, and is asked for again behind what was seen.
                headers = {**self.headers, "Last-Event-ID": seen}
                asked = self.client.ask("GET", self._url(path), read=follow, headers=headers)
                if (theatre := await asked) is not None:
                    return theatre


async def _events(stream: Connection) -> AsyncIterator[dict[str, str]]:
    """Yield the server-sent events of a stream that have data, as field → value."""
    event: dict[str, str] = {}
    rest = b""
    while chunk := await stream.read_some():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode("utf-8").partition(": ")
            if name:
                event[name] = value
            else:
                if "data" in event:
                    yield event
                event = {}


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
