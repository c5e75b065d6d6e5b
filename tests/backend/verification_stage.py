"""A repository on a local server that speaks GitHub's REST, and verifications against it."""

import asyncio
import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.backend.serving import Client
from tests.theatre.echelon_process import PATIENCE_SECONDS, until
from tests.theatre.oracles.loopback import Received, response, serving
from tests.theatre.verification.github_service import FakeTime, GitHubService

RUN = "/api/v1/verification/run"
EXTRACTIVE = {"construct_id": "change_extractive"}
READ = ("committed", "replaying", "finished")
FEW = 4
"""How many changes most verifications here are about."""


@dataclass(slots=True)
class Gate:
    """Holds back the answer to one request, counted from 0, until it is opened."""

    at: int
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    async def pass_through(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self.opened.wait, PATIENCE_SECONDS)


@dataclass(slots=True)
class GitHubStage:
    """The server, and what it was asked; `limited` are requests that its limit refuses."""

    service: GitHubService
    gate: Gate | None = None
    limited: Mapping[int, int] = field(default_factory=dict)
    """Number of a request → seconds after which it may be sent again."""
    credentials: dict[str, set[str]] = field(default_factory=dict)
    """Repository → what requests for it showed."""
    root: str = ""

    def arm(self, *, after: int) -> Gate:
        """Hold back the request that comes after so many more."""
        self.gate = Gate(len(self.service.requests) + after)
        return self.gate

    async def respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        number = len(self.service.requests)
        repository = "/".join(request.line.split("/")[2:4])
        shown = request.headers.get("authorization", "")
        self.credentials.setdefault(repository, set()).add(shown)
        if self.gate is not None and number == self.gate.at:
            await self.gate.pass_through()
        if number in self.limited:
            self.service.requests.append(request.line)
            wait = f"Retry-After: {self.limited[number]}\r\n"
            writer.write(response(b"{}", status="429 Too Many Requests", headers=wait))
            return
        await self.service.respond(request, writer)


@contextlib.contextmanager
def github(*, pulls: int = 10, gate_at: int | None = None, **more: Any) -> Iterator[GitHubStage]:  # noqa: ANN401 - as `GitHubStage`
    """Serve `pulls` pull requests of `o/n`, every fifth of which was not merged."""
    gate = None if gate_at is None else Gate(gate_at)
    stage = GitHubStage(GitHubService(pulls=pulls, time=FakeTime()), gate, **more)
    with serving(stage.respond) as server:
        stage.root = f"http://127.0.0.1:{server.port}"
        try:
            yield stage
        finally:
            if stage.gate is not None:
                stage.gate.opened.set()


def wished(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - members of a request
    """Return a request about the newest few pull requests, with some members changed."""
    return {
        "source": {"kind": "github", "repository": "o/n", "limit": FEW},
        "construct": EXTRACTIVE,
        "min_replays": FEW,
        **changes,
    }


def asked(client: Client, **changes: Any) -> str:  # noqa: ANN401 - members of a request
    """Ask for a verification and return its job's id."""
    reply = client.post(RUN, wished(**changes))
    assert reply.status == 202, reply
    return str(reply.document["job_id"])


def status(client: Client, job_id: str) -> dict[str, Any]:
    return dict(client.get(f"/api/v1/verification/status/{job_id}").document)


def finished(client: Client, job_id: str) -> dict[str, Any]:
    """Return the status of a verification once it is finished."""
    # Each part of it has the whole patience.
    for phases in (READ, ("finished",)):
        _await_phase(client, job_id, phases)
    return status(client, job_id)


def _await_phase(client: Client, job_id: str, phases: Collection[str]) -> None:
    def look() -> bool:
        return status(client, job_id)["phase"] in phases

    # To ask over HTTP all the time would take the processor from the run.
    until(look, f"a verification that is {' or '.join(phases)}", pause=0.1)
