"""`echelon verify` that is stopped, or loses its oracle, and goes on by the command it prints."""

import asyncio
import json
import shlex
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import PIN
from tests.theatre.echelon_process import PATIENCE_SECONDS, ended, started, until
from tests.theatre.oracles.loopback import LoopbackServer, Received, envelope, response, serving
from tests.theatre.verification.verify_command import (
    COMMITS,
    HELD_CALL,
    arguments,
    command,
    held_oracle,
    variables,
    verify,
    write_oracle,
)
from theatre.engine.canonical_json import parse_object

# An address of its own: no other test, and no outgoing connection, takes its ports.
HOST = "127.0.0.77"
ALLOWED = {"ECHELON_OUTBOUND_ALLOW": HOST}
OUTPUT = {"summary": "", "key_claims": ["1 file."], "follow_up_response": "1"}
HALF = COMMITS // 2


async def oracle(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(response(envelope(request, construct_version=PIN, output_data=OUTPUT)))


def test_an_oracle_that_dies_at_half_leaves_scores_and_a_command_that_goes_on(
    tmp_path: Path,
) -> None:
    dying = threading.Event()

    async def mortal(request: Received, writer: asyncio.StreamWriter) -> None:
        if len(server.received) > HALF:
            dying.set()
            await asyncio.Event().wait()
        await oracle(request, writer)

    server = LoopbackServer(mortal, host=HOST)
    server.start()
    given = arguments(
        tmp_path, "--json", "--retries=0", "--construct-version", PIN, construct=server.url
    )
    with started(*given, home=tmp_path / "home", more=ALLOWED) as process:
        try:
            assert dying.wait(PATIENCE_SECONDS)
        finally:
            server.stop()
        stopped = ended(process)
    told = stopped.document
    assert (stopped.code, told["error"]["code"]) == (8, "construct-unreachable")
    assert told["recorded"] == HALF
    assert told["scores_so_far"]["precision"] == 1
    assert list(tmp_path.rglob("certificate.json")) == []

    program, *words = shlex.split(told["go_on_with"])
    assert program == "echelon"
    with (
        serving(oracle, host=HOST, port=server.port) as again,
        started(*words, "--json", home=tmp_path / "home", more=ALLOWED) as process,
    ):
        finished = ended(process)
        calls = len(again.received)
    assert finished.code == 0
    assert (finished.document["replay_count"], calls) == (COMMITS, COMMITS - HALF)
    assert finished.document["theatre_id"] == told["theatre_id"]
    assert finished.document["check"]["verdict"] == "valid, logged"
    assert finished.document["episode_counts"]["error"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_stopped_goes_on_by_folder_without_the_repository(
    tmp_path: Path, number: signal.Signals
) -> None:
    construct, door = held_oracle(tmp_path)
    given = arguments(tmp_path, "--output", str(tmp_path / "kept"), construct=construct)
    with started(*given, home=tmp_path / "home", more=variables(tmp_path)) as process:
        until(lambda: len(door.calls) == HELD_CALL, "a call that waits")
        process.send_signal(number)
        stopped = ended(process)
    wanted = f"go on with: echelon verify --resume {tmp_path / 'kept'}"
    assert wanted in stopped.stderr
    if number == signal.SIGINT:
        assert (stopped.code, "so far       3 changes, no certificate" in stopped.stdout) == (
            8,
            True,
        )
        assert wanted in stopped.stdout
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    answer = command(tmp_path, "verify", "--resume", tmp_path / "kept", "--json")
    assert (answer.code, answer.document["replay_count"]) == (0, COMMITS)
    certificate = parse_object((tmp_path / "kept" / "verification_certificate.json").read_bytes())
    assert certificate["theatre_id"] == answer.document["theatre_id"]


def test_a_run_that_ends_before_its_last_change_is_incomplete(tmp_path: Path) -> None:
    failing = write_oracle(tmp_path, "if title in ('Change 1', 'Change 2'): raise RuntimeError")
    answer = verify(tmp_path, "--min-replays", "1", "--retries", "0", construct=failing)
    assert (answer.code, answer.document["episode_counts"]["not_run"]) == (8, COMMITS - 3)
    assert "3 changes that were never shown; try again with: echelon verify" in answer.stderr


def test_each_replay_is_shown_and_logged_with_its_scores(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    answer = verify(tmp_path, "--verbose", "--log-json", str(log))
    shown = [line for line in answer.stderr.splitlines() if "  scored    precision 1.000" in line]
    assert (answer.code, len(shown)) == (0, COMMITS)
    events: list[Any] = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [event["event"] for event in events] == [
        "ground-truth",
        "template",
        "run",
        *["replay"] * COMMITS,
        "ended",
    ]
    replays = events[3:-1]
    assert [event["seq"] for event in replays] == list(range(1, COMMITS + 1))
    assert replays[0]["scores"] == {"precision": 1, "recall": 1, "reply_accuracy": 1}
    assert events[1]["commitment_hash"] == answer.document["commitment_hash"]
    assert events[-1]["check_verdict"] == "valid, logged"


@pytest.mark.parametrize("more", [("--repo", "."), ("--construct", "a:b"), ("--dry-run",)])
def test_a_resumption_takes_nothing_that_is_committed(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    answer = command(tmp_path, "verify", "--resume", tmp_path, *more, "--json")
    assert (answer.code, "expected --resume without" in answer.document["error"]["message"]) == (
        2,
        True,
    )


def test_a_folder_without_a_run_is_not_found(tmp_path: Path) -> None:
    answer = command(tmp_path, "verify", "--resume", tmp_path / "nothing", "--json")
    assert (answer.code, answer.document["error"]["code"]) == (3, "not-found")
