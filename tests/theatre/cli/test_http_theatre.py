"""Constructs behind HTTP, from the command line to a bundle that checks."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from tests.theatre.cli.doubler import (
    EPISODES,
    PIN,
    SERVED,
    double,
    run,
    write_module,
    write_theatre,
)
from tests.theatre.echelon_process import Answer, processes_that_mention
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, Respond, serving


def calls(answer: Answer) -> list[dict[str, object]]:
    """Return the only call of each episode from the bundle's records."""
    folder = Path(answer.document["bundle_path"]) / "invocations"
    records = [json.loads(path.read_bytes()) for path in sorted(folder.iterdir())]
    return [call for record in records for call in record["calls"]]


def is_valid(answer: Answer, home: Path) -> bool:
    check = forked("check", answer.document["bundle_path"], "--json", home=home)
    return bool(check.document["verdict"] == "consistent")


def test_a_program_that_serves_http_is_started_certified_and_gone(tmp_path: Path) -> None:
    version = write_module(tmp_path, SERVED)
    (tmp_path / "constructs.toml").write_text(SERVED)
    answer = run(write_theatre(tmp_path, adapter_type="http", version=version))
    assert answer.code == 0, answer.stdout
    assert (answer.document["outcome"], answer.document["scores"]) == ("certified", {"right": 1})
    made = Counter((call["adapter"], call["version_source"]) for call in calls(answer))
    assert made == {("http@1", "computed"): EPISODES}
    assert is_valid(answer, tmp_path)
    assert processes_that_mention(tmp_path) == []


def test_an_edit_of_a_served_program_is_refused_before_it_is_started(tmp_path: Path) -> None:
    write_module(tmp_path)
    (tmp_path / "constructs.toml").write_text(SERVED)
    answer = run(write_theatre(tmp_path, adapter_type="http", endpoint="construct:doubler"))
    assert (answer.code, answer.document["error"]["code"]) == (5, "pin-mismatch")


def test_a_service_elsewhere_is_called_by_the_url_in_the_template(tmp_path: Path) -> None:
    with serving(double) as server:
        template = write_theatre(tmp_path, adapter_type="http", endpoint=server.url)
        answer = run(template, allow=f"10.0.0.0/8, 127.0.0.1:{server.port}")
        assert len(server.received) == EPISODES
    assert answer.code == 0, answer.stdout
    assert answer.document["scores"] == {"right": 1}
    made = Counter((call["adapter"], call["version_source"]) for call in calls(answer))
    assert made == {("http@1", "claimed"): EPISODES}
    assert is_valid(answer, tmp_path)


def test_a_registered_service_is_called_with_its_headers(tmp_path: Path) -> None:
    with serving(double) as server:
        (tmp_path / "constructs.toml").write_text(
            f'[constructs.somewhere]\nurl = "{server.url}"\n'
            'headers_env = {X-Key = "DOUBLER_KEY"}\n'
        )
        template = write_theatre(tmp_path, adapter_type="http", endpoint="construct:somewhere")
        without = run(template, allow="127.0.0.1")
        answer = run(template, allow="127.0.0.1", more={"DOUBLER_KEY": "of the doubler"})
        keys = [received.headers["x-key"] for received in server.received]
    assert (without.code, without.document["error"]) == (
        5,
        {
            "code": "request-headers-invalid",
            "message": "expected the value of header X-Key in the environment variable "
            "DOUBLER_KEY, got none: set it",
        },
    )
    assert answer.code == 0, answer.stdout
    assert keys == ["of the doubler"] * EPISODES


def meeting(peaks: list[int], *, at_once: int) -> Respond:
    """Answer when so many calls have met, and note how many were under way at the most."""
    all_here = asyncio.Barrier(at_once)
    under_way: list[Received] = []

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        under_way.append(request)
        await all_here.wait()
        # Time for one too many to come.
        await asyncio.sleep(0.05)
        peaks.append(len(under_way))
        under_way.remove(request)
        await double(request, writer)

    return respond


def test_calls_come_at_once_as_far_as_committed_and_allowed(tmp_path: Path) -> None:
    committed: list[int] = []
    allowed: list[int] = []
    with serving(meeting(committed, at_once=4)) as server:
        policy = {"max_concurrency": 4}
        template = write_theatre(tmp_path, adapter_type="http", endpoint=server.url, policy=policy)
        first = run(template, allow="127.0.0.1")
    with serving(meeting(allowed, at_once=2), port=server.port):
        second = run(template, "--concurrency", "2", allow="127.0.0.1")
    assert (first.code, second.code) == (0, 0)
    assert (max(committed), max(allowed)) == (4, 2)
    assert first.document["results_hash"] == second.document["results_hash"]


CHAIN = """
[constructs.tail]
argv = ["{python}", "-m", "theatre.construct_kit", "--stdio", "--folder", "{folder}", "passing:on"]
folder = "."
files = ["passing.py"]
"""
PASSES_ON = '''
def on(input_data: dict) -> dict:
    """Return what came from upstream."""
    return input_data["upstream"]["doubler"]
'''


def test_each_construct_of_a_chain_is_reached_in_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "passing.py").write_text(PASSES_ON)
    (tmp_path / "constructs.toml").write_text(CHAIN)
    version = forked("construct", "version", "tail", home=tmp_path, cwd=tmp_path).stdout.strip()
    with serving(double) as server:
        template = write_theatre(
            tmp_path,
            adapter_type="local",
            version_pins={
                "constructs": {"doubler": PIN, "tail": version},
                "scorer_version": "exact_match@1",
            },
            resolution_programme=[
                {"step_id": "call", "type": "construct_invocation", "construct_id": "doubler"},
                {"step_id": "pass", "type": "construct_invocation", "construct_id": "tail"},
                {"step_id": "sum", "type": "aggregation"},
            ],
            config={
                "construct_under_test": "tail",
                "construct_chain": ["doubler", "tail"],
                "construct_endpoints": {
                    "doubler": {"adapter_type": "http", "endpoint": server.url}
                },
            },
        )
        answer = run(template, allow="127.0.0.1")
    assert answer.code == 0, answer.stdout
    assert answer.document["scores"] == {"right": 1}
    made = Counter((call["construct_id"], call["adapter"]) for call in calls(answer))
    assert made == {("doubler", "http@1"): EPISODES, ("tail", "local@1"): EPISODES}
