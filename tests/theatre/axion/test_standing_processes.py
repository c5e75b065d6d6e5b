"""Gate and P5 of a theatre's episodes: processes of their own, which come back when they die."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.theatre.axion.answering import answer
from tests.theatre.axion.proposed import prepared
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import GateGoneError
from theatre.axion.common.hashing import Document
from theatre.axion.harness.theatre_runner import play
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.probe_engine import answer as p5_answer
from theatre.axion.kernel.probe_engine import p5_input
from theatre.axion.kernel.processes import GATE, P5, P5_MODULE, SharedProcess
from theatre.engine.canonical_json import JsonObject


@pytest.fixture
def process() -> Iterator[SharedProcess]:
    with closing(SharedProcess(P5_MODULE)) as made:
        yield made


def closed(step: int = 3) -> bytes:
    made = prepared(mode=Mode.MCI_MINIMAL)
    (nonce,) = made.nonces.values()
    seed = bytes([step]) * 32
    document: Document = p5_input(
        made.proposal, episode_id="7-basic", step=step, nonce=nonce, seed=seed
    )
    return canonical_bytes(document)


def played() -> Any:  # noqa: ANN401 - a document
    world: JsonObject = {"scenario": "hazard", "scenario_seed": "ab" * 32}
    playing = play(world, "a seed")
    asked: Any = next(playing)
    while True:
        try:
            asked = playing.send(answer("honest", asked))
        except StopIteration as ended:
            return ended.value


def test_an_episode_is_decided_and_examined_in_processes_that_are_not_this_one() -> None:
    first = played()
    before = {GATE.pid, P5.pid}
    assert len(before | {os.getpid()}) == 3
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    # Had it asked anybody else, nobody would have noticed that they are gone.
    assert played() == first
    assert not before & {GATE.pid, P5.pid}


def test_a_process_that_was_killed_is_started_anew_and_answers_the_same(
    process: SharedProcess,
) -> None:
    said, pid = process.ask(closed()), process.pid
    os.kill(pid, signal.SIGKILL)
    assert process.ask(closed()) == said == p5_answer(closed())
    assert process.pid != pid


def test_a_process_that_ends_every_time_is_asked_twice_and_no_more() -> None:
    ending = SharedProcess("theatre.axion.common.errors")
    with closing(ending), pytest.raises(GateGoneError):
        ending.ask(b"anything")


def test_threads_that_ask_at_once_get_their_own_answers(process: SharedProcess) -> None:
    questions = [closed(step) for step in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(process.ask, questions))
    assert answers == [p5_answer(question) for question in questions]
    assert len({json.dumps(json.loads(one)["checks"]) for one in answers}) > 1


FORKING = """
import os, sys
from theatre.axion.kernel.processes import SharedProcess
process, question = SharedProcess(sys.argv[1]), sys.stdin.buffer.read()
said, pid = process.ask(question), process.pid
forked = os.fork()
if not forked:
    right = process.ask(question) == said and process.pid != pid
    process.close()
    os._exit(0 if right else 1)
assert os.waitpid(forked, 0)[1] == 0
assert (process.ask(question), process.pid) == (said, pid)
"""


def test_what_was_forked_asks_a_process_of_its_own() -> None:
    argv = [sys.executable, "-W", "error", "-c", FORKING, P5_MODULE]
    subprocess.run(argv, input=closed(), check=True, capture_output=True)
