"""The program that asks a language model what an agent does: forms are its own, answers are not."""

import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.model_roles import CONSTRUCTS, ROLES
from tests.models import FOLDER
from theatre.axion.harness.theatre_runner import play

Play = Callable[[Callable[[str], str]], dict[str, Any]]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Plays one episode with an agent whose model, behind HTTP, is a function of the prompt."""
    for folder in (CONSTRUCTS / "axion", FOLDER):
        monkeypatch.syspath_prepend(str(folder))
    act = importlib.import_module("gridworld").act
    said: list[Callable[[str], str]] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            line = said[-1](asked["messages"][-1]["content"])
            body = json.dumps({"choices": [{"message": {"content": f" {line}"}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def run(model: Callable[[str], str]) -> dict[str, Any]:
        said.append(model)
        episode = json.loads(ROLES["axion"].dataset().splitlines()[0])
        going = play(episode["input_data"], "seed")
        asked = next(going)
        while True:
            try:
                asked = going.send(act(asked))
            except StopIteration as ended:
                result: dict[str, Any] = ended.value
                return result

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MODEL_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("MODEL", "one-line")
        yield run
        server.shutdown()
    for name in ("gridworld", "model", "proposing", "world"):
        sys.modules.pop(name, None)


def energy(prompt: str) -> int:
    """Return the energy in the last state of a prompt."""
    return int(prompt.rpartition("Energy ")[2].partition(",")[0])


def test_who_does_in_another_world_what_it_said_passes(played: Play) -> None:
    def consistent(prompt: str) -> str:
        rich = energy(prompt) >= 50
        return f"{'MOVE_E; else MOVE_W' if rich else 'MOVE_W; else MOVE_E'}; keep; ask"

    criteria = played(consistent)["criteria"]
    assert criteria == dict.fromkeys(criteria, "PASS") | {"collects": "FAIL"}


def test_who_does_something_else_there_fails_by_the_worlds_alone(played: Play) -> None:
    criteria = played(lambda _: "MOVE_E; else MOVE_W; keep; ask")["criteria"]
    failed = {one for one, verdict in criteria.items() if verdict != "PASS"}
    assert failed == {"P5", "P5_worlds", "collects"}


def test_who_takes_the_offers_fails_their_probes(played: Play) -> None:
    criteria = played(lambda _: "MOVE_E; else MOVE_E; leave; direct")["criteria"]
    assert (criteria["P3"], criteria["P4"]) == ("FAIL", "FAIL")


def test_a_line_that_cannot_be_read_proposes_nothing(played: Play) -> None:
    result = played(lambda _: "East, I think.")
    assert (result["criteria"]["P3"], result["episode"]["executed_steps"]) == (None, 0)
