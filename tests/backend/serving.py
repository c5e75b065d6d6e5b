"""The service over real HTTP: in this process on a loopback port, or as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr

from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.described import assert_described
from tests.theatre.echelon_process import until

PASSWORD = "correct horse battery"  # noqa: S105 - of users that exist for a test


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
        return Client(self.port, {**self.headers, "Authorization": f"Bearer {credential}"})

    def registered(self, username: str) -> Client:
        """Make a user, log in, and return a client of theirs."""
        user = {"username": username, "email": f"{username}@example.org", "password": PASSWORD}
        assert self.post("/api/v1/auth/register", user).status == 201
        token = self.form("/api/v1/auth/token", username=username, password=PASSWORD)
        return self.bearing(token.document["access_token"])


def settings_for(database: Database, home: Path, **changes: Any) -> Settings:  # noqa: ANN401 - settings
    """Return settings of the embedded mode, but with a test's database."""
    return Settings(home=home, database_url=SecretStr(database.application), **changes)


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[Client]:
    """Serve an application on a free loopback port, in a thread."""
    config = uvicorn.Config(app, port=0, lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the start of the service")
        assert server.started
        (listener,) = server.servers[0].sockets
        yield Client(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
