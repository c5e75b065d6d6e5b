"""`echelon serve` as a process: it starts, drains, and leaves nothing running and nothing told."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.services.runs import runs
from backend.services.runs.runs import wait_unless_stopping
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, USER_ID, Database
from tests.backend.embedded_home import EmbeddedHome
from tests.backend.serving import PASSWORD, Client
from tests.backend.theatre_templates import cartograph
from tests.theatre.echelon_process import ECHELON, PATIENCE_SECONDS, environment, until
from tests.theatre.files.journal_conformance import THEATRE_ID
from tests.theatre.forked_echelon import forked

LISTENING = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
PLANTED = "planted-9b1f3c"


class Serving:
    """One `echelon serve` with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def port(self) -> int | None:
        """The port, once there is one; fails where the process has ended without."""
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        found = LISTENING.search(self.log.read_text(encoding="utf-8"))
        return None if found is None else int(found[1])

    @property
    def client(self) -> Client:
        until(lambda: self.port() is not None, "the start of the service")
        port = self.port()
        assert port is not None
        return Client(port)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def serving(home: Path, name: str = "serve", **variables: str) -> Iterator[Serving]:
    log = home.parent / f"{name}.log"
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [ECHELON, "serve", "--port", "0"],
            env=environment(home, more=variables),
            stdout=written,
            stderr=written,
        ) as process,
    ):
        try:
            yield Serving(process, log)
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EmbeddedHome]:
    made = EmbeddedHome(tmp_path / "a home")
    yield made
    made.end()


def test_the_service_runs_its_own_database_and_takes_it_along(home: EmbeddedHome) -> None:
    with serving(home.home) as service:
        ada = service.client.registered("ada")
        made = subprocess.run(
            [ECHELON, "key", "create", "--user", "ada", "--name", "tool", "--scope", "keys"],
            env=environment(home.home),
            capture_output=True,
            text=True,
            check=True,
        )
        tool = service.client.bearing(made.stdout.strip())
        assert [one["name"] for one in tool.get("/keys").document["keys"]] == ["tool"]
        refused = subprocess.run(
            [ECHELON, "key", "create", "--user", "bob", "--name", "tool", "--scope", "keys"],
            env=environment(home.home),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "there is no user of this name" in refused.stderr
        assert service.end() == 0
    home.await_nothing_left()
    with serving(home.home, "again") as service:
        # Users and keys are those of before.
        assert Client(service.client.port, ada.headers).get("/keys").status == 200
        assert service.end() == 0
    home.await_nothing_left()


@pytest.fixture
def own(database: Database) -> dict[str, str]:
    return {"ECHELON_DATABASE_URL": database.application}


def test_a_request_at_work_is_finished_before_the_service_ends(
    tmp_path: Path, own: dict[str, str]
) -> None:
    user = {"username": "ada", "email": "ada@example.org", "password": PASSWORD}
    body = json.dumps(user).encode()
    with serving(tmp_path / "home", **own) as service:
        address = ("127.0.0.1", service.client.port)
        with socket.create_connection(address, timeout=60) as connection:
            head = (
                "POST /auth/register HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body[:10])
            until(
                lambda: b"in_progress 2" in service.client.get("/metrics").body,
                "the request to be at work",
            )
            service.process.send_signal(signal.SIGTERM)
            until(lambda: refuses(address), "the service to take no more requests")
            connection.sendall(body[10:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 201")
        assert service.process.wait(PATIENCE_SECONDS) == 0


def test_a_service_that_stops_waits_for_no_run(tmp_path: Path, own: dict[str, str]) -> None:
    # Nobody runs what is queued; the wait is longer than what requests have to end.
    with serving(tmp_path / "home", **own, ECHELON_WORKER_IN_API="false") as service:
        ada = service.client.registered("ada")
        theatre = ada.post("/theatres", {"template_json": cartograph()}).document["id"]
        assert ada.post(f"/theatres/{theatre}/commit", {}).status == 200
        with ThreadPoolExecutor() as elsewhere:
            answer = elsewhere.submit(
                ada.post, f"/theatres/{theatre}/run", {}, headers={"Prefer": "wait=60"}
            )
            until(
                lambda: ada.get(f"/theatres/{theatre}").document["run"] is not None,
                "the run to be queued",
            )
            code = service.end()
        assert (answer.result().status, code) == (202, 0)
        assert answer.result().document["run"]["status"] == "queued"


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_planted_secret_is_in_no_line_of_the_log(
    tmp_path: Path, own: dict[str, str], database: Database
) -> None:
    with serving(tmp_path / "home", ECHELON_LOG_LEVEL="debug", **own) as service:
        client = service.client
        ada = client.registered("ada")
        token = ada.headers["Authorization"].removeprefix("Bearer ")
        made = ada.post("/keys", {"name": "n", "scopes": ["keys"], "expires_in_days": 1}).document
        client.bearing(made["key"]).get("/keys")
        client.bearing(PLANTED).get(f"/keys?token={PLANTED}")
        client.bearing(f"{token}x").get(f"/{token}")
        client.get(f"/livez?{PLANTED}={token}", Cookie=PLANTED, Referer=PLANTED)
        client.form("/auth/token", username=PLANTED, password=PLANTED)
        client.form("/auth/token", username=f"{PLANTED}\0", password=PLANTED)
        client.post("/auth/register", {"username": "x", "email": "a@b.c", "password": [PLANTED]})
        client.ask(PLANTED.upper(), "/livez")
        with database.connected("postgres") as connection:
            connection.execute("DROP TABLE users CASCADE")
        user = {"username": "bob", "email": f"{PLANTED}@b.cd", "password": PLANTED}
        assert client.post("/auth/register", user).status == 500
        assert service.end() == 0
        written = service.log.read_text(encoding="utf-8")
        assert any("UndefinedTable" in line.get("exception", "") for line in service.lines)
    for secret in (PLANTED, token, token.split(".")[2], made["key"], PASSWORD):
        assert secret.lower() not in written.lower()
    (noted,) = [line for line in service.lines if line.get("route") == "/auth/register"][:1]
    assert {name: noted[name] for name in ("level", "logger", "message", "method", "status")} == {
        "level": "info",
        "logger": "backend.api.http.middleware",
        "message": "request",
        "method": "POST",
        "status": 201,
    }


def test_settings_that_are_missing_end_the_start(tmp_path: Path) -> None:
    with serving(tmp_path / "home", ECHELON_MODE="production") as service:
        assert service.process.wait(PATIENCE_SECONDS) == 5
        written = service.log.read_text(encoding="utf-8")
    assert "expected ECHELON_DATABASE_URL and ECHELON_JWT_KEYS" in written
    assert not (tmp_path / "home").exists()


def test_in_production_without_its_keys_the_service_does_not_start(
    tmp_path: Path, own: dict[str, str]
) -> None:
    keys = tmp_path / "keys.json"
    production = {**own, "ECHELON_MODE": "production", "ECHELON_JWT_KEYS": os.fspath(keys)}
    ended = forked("serve", "--port", "0", home=tmp_path / "home", more=production)
    expected = f"expected the keys that sign tokens in {keys}, got: No such file or directory"
    assert (ended.code, ended.stderr) == (5, f"error (signing-keys): {expected}\n")
    assert not keys.exists()


def test_what_the_start_refuses_is_said_in_one_line_and_tells_no_password(
    tmp_path: Path, own: dict[str, str]
) -> None:
    registry = {**own, "ECHELON_CONSTRUCTS": os.fspath(tmp_path / "none.toml")}
    ended = forked("serve", "--port", "0", home=tmp_path / "home", more=registry)
    said = ended.stderr.splitlines()[-1]
    assert (ended.code, "Traceback" in ended.stderr) == (5, False)
    assert said.startswith("error (construct-registry-invalid): expected a construct registry at")
    nowhere = {"ECHELON_DATABASE_URL": f"postgresql://u:{PLANTED}@127.0.0.1:1/x"}
    ended = forked("serve", "--port", "0", home=tmp_path / "home", more=nowhere)
    assert ended.code == 1
    assert "error (database): expected a database that lets the service in, got: " in ended.stderr
    assert not {PLANTED, "Traceback"} & set(re.split(r"\W", ended.stderr))


def test_a_wait_ends_with_its_time_with_news_or_with_the_service() -> None:
    async def scene() -> tuple[bool, bool, bool]:
        stopping, changes = asyncio.Event(), ChangeSignal()
        timed_out = await wait_unless_stopping(stopping, changes, 0.001)
        asyncio.get_running_loop().call_soon(changes.notify)
        heard = await wait_unless_stopping(stopping, changes, 2 * PATIENCE_SECONDS)
        asyncio.get_running_loop().call_soon(stopping.set)
        return timed_out, heard, await wait_unless_stopping(stopping, changes, 2 * PATIENCE_SECONDS)

    assert asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS)) == (False, False, True)


def test_a_stream_of_events_ends_with_the_service(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_SECONDS", 2 * PATIENCE_SECONDS)
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID, **COMMITMENT)

    async def scene() -> list[str]:
        engine, stopping = database.engine(), asyncio.Event()
        kinds = []
        events = runs.theatre_events(
            engine,
            ChangeListener(database.application),
            THEATRE_ID,
            user_id=USER_ID,
            after=0,
            stopping=stopping,
        )
        async for event in events:
            kinds.append(event.kind)
            stopping.set()
        await engine.dispose()
        return list(kinds)

    assert asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS)) == ["state"]
