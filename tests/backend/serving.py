"""The service over real HTTP: in this process on a loopback port, or as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import psycopg
import uvicorn
from argon2 import PasswordHasher
from fastapi import FastAPI
from pydantic import SecretStr

from backend.api.http.service import Service
from backend.database.models.base import new_id
from backend.runtime import now
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.described import assert_described
from tests.theatre.echelon_process import until

PASSWORD = "correct horse battery"  # noqa: S105 - of users that exist for a test
_INSERT_USER = (
    "INSERT INTO users (id, username, email, password_hash, created_at) VALUES (%s, %s, %s, %s, %s)"
)


@cache
def _quick_hash() -> str:
    """Hash PASSWORD as cheaply as argon2id can: a hash is checked with its own parameters.

    Hundreds of tests need a user; what a good hash costs is for the tests of accounts.
    """
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def document(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.body)

    @property
    def slug(self) -> str:
        """Of the problem that this must be."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert set(self.document) == {"type", "title", "status", "detail", "instance", "errors"}
        assert self.document["status"] == self.status
        assert self.document["instance"].startswith("urn:request:")
        return str(self.document["type"]).removeprefix("/problems/")


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to one port, each on a connection of its own."""

    port: int
    headers: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    """Where users are written straight away; without it they register over HTTP."""

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            # A body that is refused is not read to its end: the answer is there all the same.
            with contextlib.suppress(BrokenPipeError):
                connection.request(method, path, body, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            reply = Reply(
                status=answer.status,
                headers={name.lower(): value for name, value in answer.getheaders()},
                body=answer.read(),
            )
        # The server itself refuses in text what is no HTTP; what is a HEAD has no body to look at.
        if reply.headers.get("content-type") == "application/problem+json" and reply.body:
            assert_described(method, path, status=reply.status, slug=reply.slug)
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(
        self, path: str, document: object, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        given = {"Content-Type": "application/json", **(headers or {})}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", path, body=body, headers=given)

    def form(self, path: str, **fields: str) -> Reply:
        given = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, body=urlencode(fields).encode(), headers=given)

    def bearing(self, credential: str) -> Client:
        """Return a client that shows a token or a key."""
        return replace(self, headers={**self.headers, "Authorization": f"Bearer {credential}"})

    def add_user(self, username: str) -> str:
        """Make a user, and return their id."""
        email = f"{username}@example.org"
        if self.database is None:
            user = {"username": username, "email": email, "password": PASSWORD}
            reply = self.post("/api/v1/auth/register", user)
            assert reply.status == 201
            return str(reply.document["id"])
        user_id = new_id(now())
        with psycopg.connect(self.database) as connection:
            connection.execute(_INSERT_USER, (user_id, username, email, _quick_hash(), now()))
        return user_id

    def registered(self, username: str) -> Client:
        """Make a user, log in, and return a client of theirs."""
        self.add_user(username)
        token = self.form("/api/v1/auth/token", username=username, password=PASSWORD)
        return self.bearing(token.document["access_token"])


def at_once(count: int, ask: Callable[[], Reply]) -> list[Reply]:
    """Ask so often at the same time; whoever is told to come back later does.

    They may be more than a busy machine has connections for in time.
    """

    def answer() -> Reply | None:
        reply = ask()
        is_for_later = reply.status >= HTTPStatus.BAD_REQUEST and "retry-after" in reply.headers
        return None if is_for_later else reply

    with ThreadPoolExecutor(count) as pool:
        asked = [
            pool.submit(until, answer, "an answer that is one", pause=0.5) for _ in range(count)
        ]
        return [one.result() for one in asked]


def settings_for(database: Database, home: Path, **changes: Any) -> Settings:  # noqa: ANN401 - settings
    """Return settings of the embedded mode, but with a test's database."""
    return Settings(home=home, database_url=SecretStr(database.application), **changes)


class EventServer(uvicorn.Server):
    """uvicorn that hears at once that it is to stop; its own loop looks ten times a second."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Have the event before anyone can see that the service has started."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        """Set the headers of every answer, and wait."""
        await self.on_tick(0)
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say so to requests that only wait, as `echelon serve` does, and end."""
        # Some tests serve no service, but an application of their own.
        service = cast("Service | None", self.lifespan.state.get("service"))
        if service is not None:
            service.stopping.set()
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Let `run` come to its end, from another thread; one that did not start has ended."""
        if self.started:
            self._loop.call_soon_threadsafe(self._stopping.set)


@contextlib.contextmanager
def served(app: FastAPI, *, port: int = 0) -> Iterator[Client]:
    """Serve an application on a loopback port, in a thread; on a free one where none is named."""
    config = uvicorn.Config(
        app, port=port, lifespan="on", log_config=None, access_log=False, proxy_headers=False
    )
    server = EventServer(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the start of the service")
        assert server.started
        (listener,) = server.servers[0].sockets
        settings = cast("Service", server.lifespan.state["service"]).settings
        address = settings.database_url
        yield Client(
            listener.getsockname()[1],
            database=None if address is None else address.get_secret_value(),
        )
    finally:
        server.stop()
        thread.join()
