"""Prints requests per second of processor time of one `echelon serve`; asserts nothing.

`python -m tests.benchmarks.service_requests [REQUESTS] [ROUNDS]` starts the service with its
embedded database, has it certify a construct, and asks from another process. Linux only. What
PostgreSQL's processes take is shown next to it, and is not in the figure. With
`ask PORT PATH REQUESTS CONNECTIONS [CREDENTIAL]` it is that other process: each connection sends
the same bytes again as soon as the whole answer, which must be 200, is there.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.backend.embedded_home import EmbeddedHome
from tests.backend.serving import Client
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_serve import serving
from tests.benchmarks.figures import show_rates, sizes
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import ECHELON, REPOSITORY, environment
from theatre.engine.commitment import content_hash

REQUESTS, ROUNDS, CONNECTIONS = 2_000, 5, 8
WARMING = 200
TICKS = os.sysconf("SC_CLK_TCK")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One path that is asked."""

    name: str
    path: str
    credential: str | None = None
    times: int = 1
    """How many times the usual requests: what is quick is asked often enough to be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A service that has something to say, and the processes behind it."""

    port: int
    service: int
    postmaster: int
    questions: tuple[Question, ...]


def processor_seconds(pid: int, *, with_ended_children: bool = False) -> float:
    """Return what a process has taken so far, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    last = 15 if with_ended_children else 13
    return sum(map(int, fields[11:last])) / TICKS


def database_seconds(postmaster: int) -> float:
    """Return what the database's processes have taken, those that have ended included."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii")
    own = processor_seconds(postmaster, with_ended_children=True)
    return own + sum(processor_seconds(int(pid)) for pid in children.split())


def ask(asked: Asked, question: Question, requests: int) -> None:
    """Have another process ask, and wait for its end."""
    credential = [] if question.credential is None else [question.credential]
    arguments = [str(asked.port), question.path, str(requests), str(CONNECTIONS), *credential]
    command = [sys.executable, "-m", "tests.benchmarks.service_requests", "ask", *arguments]
    subprocess.run(command, cwd=REPOSITORY, check=True)


async def ask_one(port: int, request: bytes, times: int) -> None:
    """Send one request `times` times on one kept-alive connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(times):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            raise RuntimeError(f"expected 200 with a length, got {head[:200]!r}")
        await reader.readexactly(int(length[1]))
    writer.close()
    await writer.wait_closed()


async def ask_all(port: str, path: str, requests: str, connections: str, *credential: str) -> None:
    """Share the requests out to the connections."""
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "".join(f"Authorization: Bearer {one}\r\n" for one in credential)
    each = int(requests) // int(connections)
    asked = (ask_one(int(port), f"{head}\r\n".encode(), each) for _ in range(int(connections)))
    await asyncio.gather(*asked)


def show(asked: Asked, question: Question, requests: int, rounds: int) -> None:
    """Print requests per second of the service's processor time, the best and the median round."""
    ask(asked, question, min(WARMING, requests))
    requests *= question.times
    rates, behind = [], []
    for _ in range(rounds):
        own, database = processor_seconds(asked.service), database_seconds(asked.postmaster)
        ask(asked, question, requests)
        rates.append(requests / max(1 / TICKS, processor_seconds(asked.service) - own))
        behind.append((database_seconds(asked.postmaster) - database) / requests)
    show_rates(question.name, rates, f"database {statistics.median(behind) * 1000:6.3f} ms")


def certified(client: Client, template: object) -> dict[str, object]:
    """Run a theatre to its certificate."""
    path = client.post("/api/v1/theatres", {"template_json": template}).headers["location"]
    client.post(f"{path}/commit", {})
    reply = client.post(f"{path}/run", {}, headers={"Prefer": "wait=60"})
    if reply.document["outcome"] != "certified":
        raise RuntimeError(f"expected a certificate, got {reply.document}")
    return dict(reply.document)


def questions_of(ada: Client, theatre: dict[str, object]) -> tuple[Question, ...]:
    """Return what is asked."""
    token = ada.headers["Authorization"].removeprefix("Bearer ")
    made = {"name": "bench", "scopes": ["read"], "expires_in_days": 1}
    key = ada.post("/keys", made).document["key"]
    own = f"/api/v1/theatres/{theatre['id']}"
    certificate = f"/api/v1/certificates/{theatre['certificate_id']}"
    listed = f"/api/v1/certificates?construct_id={CONSTRUCT_ID}"
    return (
        Question(name="GET /certificates/{id}/document", path=f"{certificate}/document", times=10),
        Question(name="GET /certificates/{id}", path=certificate),
        Question(name="GET /c/{id}, a page", path=f"/c/{theatre['certificate_id']}", times=10),
        Question(
            name="GET /certificates/{id}/badge.svg",
            path=f"/certificates/{theatre['certificate_id']}/badge.svg",
        ),
        Question(name="GET /badge/{construct_id}.svg", path=f"/badge/{CONSTRUCT_ID}.svg"),
        Question(name="GET /certificates?construct_id=", path=listed),
        Question(
            name="GET /constructs/{id}/routing", path=f"/api/v1/constructs/{CONSTRUCT_ID}/routing"
        ),
        Question(name="GET /theatres/{id}, by a token", path=own, credential=token),
        Question(name="GET /theatres/{id}, by a key", path=own, credential=key),
    )


def measure(folder: Path, requests: int, rounds: int) -> None:
    """Start the service, let it certify, and print what its answers cost."""
    stage = sums_stage(folder / "stage", sums(60))
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    home = EmbeddedHome(folder / "home")
    try:
        with serving(home.home, **stage.variables) as service:
            ada = service.client.registered("ada")
            ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
            confirm = ("admin", "construct", "confirm", CONSTRUCT_ID, "--user", "ada")
            subprocess.run(
                [ECHELON, *confirm],
                env=environment(home.home),
                check=True,
                stdout=subprocess.DEVNULL,
            )
            asked = Asked(
                port=ada.port,
                service=service.process.pid,
                postmaster=home.postmaster,
                questions=questions_of(ada, certified(ada, stage.template)),
            )
            for question in asked.questions:
                show(asked, question, requests, rounds)
            service.end()
        home.await_nothing_left()
    finally:
        home.end()


def main() -> None:
    """Measure with as many requests and rounds as the caller asks for."""
    if sys.argv[1:2] == ["ask"]:
        asyncio.run(ask_all(*sys.argv[2:]))
        return
    requests, rounds = sizes(REQUESTS, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), requests, rounds)


if __name__ == "__main__":
    main()
