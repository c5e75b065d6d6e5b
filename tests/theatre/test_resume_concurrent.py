"""Sixteen calls at a time over real HTTP, killed and interrupted: what is durable is kept.

The runner and the construct's server are processes of their own. The construct holds answers back
until the test has done what it came for, so no run is over before it could be killed.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.arrivals import SIXTEEN, journalled
from tests.theatre.construct_kit.kit_process import http_service
from tests.theatre.echelon_process import Answer, ended, started, until
from tests.theatre.runs import (
    PILOT,
    VERSION,
    Stage,
    checked,
    drawn,
    episodes,
    pilot_stage,
    recorded_lines,
)
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.evidence_bundle import bundle_name

SOAK = bool(os.environ.get("ECHELON_SOAK"))
EPISODES = 180
CALLS = 16
BATCH = 20
"""With sixteen calls a batch is written when it has five results: 5 + 15 are at risk."""

CONSTRUCT = """
import time
from pathlib import Path

from theatre.construct_kit import Refusal

HOLD = Path(__file__).with_name("hold")


def answer(asked):
    # Later answers are often in before earlier ones.
    time.sleep(asked["seq"] * 7 % 13 / 1000)
    while HOLD.exists() and asked["seq"] >= int(HOLD.read_text() or 0):
        time.sleep(0.002)
    if asked.get("do") == "err":
        raise ValueError("cannot")
    if asked.get("do") == "refuse":
        raise Refusal("will not")
    return {"colour": asked.get("do", "red"), "recall": 0.5}
"""

# The kit's own server. Each call is written down before it is answered: its invocation id, its
# key, and how many calls are under way.
SERVER = """
import json, sys, threading

from theatre.construct_kit import __main__, http_server

log, lock, under_way = sys.argv.pop(1), threading.Lock(), []


class CountedCalls(http_server.Calls):
    def answer(self, raw):
        called = json.loads(raw)["invocation_id"]
        with lock:
            under_way.append(called)
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{called} {threading.current_thread().key} {len(under_way)}\\n")
        try:
            return super().answer(raw)
        finally:
            with lock:
                under_way.remove(called)


class CountedRequestHandler(http_server.RequestHandler):
    def do_POST(self):
        threading.current_thread().key = self.headers["Idempotency-Key"]
        super().do_POST()


http_server.Calls, http_server.RequestHandler = CountedCalls, CountedRequestHandler
sys.exit(__main__.main(sys.argv[1:]))
"""

RUNNER = """
import asyncio, sys, time
from pathlib import Path

from theatre.api.workspace import utc_now
from theatre.engine.replay import ReplayEngine, RunSettings, RunContext
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.retry import make_retrying_invoker
from theatre.scorers import load_scorers

home, theatre_id, construct_id, url, batch_size = sys.argv[1:]


async def main():
    with FileTheatreStore(Path(home)).hold(theatre_id) as held:
        policy = OutboundPolicy(allow=("127.0.0.1",))
        adapter = HTTPOracleAdapter(url, policy=policy, clock=utc_now, monotonic=time.monotonic)
        around = RunContext(
            coin=held.coin,
            adapters={construct_id: adapter},
            invoke=make_retrying_invoker(asyncio.sleep),
            datasets=DatasetRoots([held.template_folder]),
            scorers=load_scorers(),
            registry=SchemaRegistry(),
            clock=utc_now,
            sleep=asyncio.sleep,
        )
        # No batch is written because of its age: what is durable is known.
        settings = RunSettings(
            output_dir=held.folder,
            drafts_dir=Path(home) / "drafts",
            batch_size=int(batch_size),
            batch_seconds=3600,
        )
        try:
            await ReplayEngine(held.theatre, held.journal, around, settings).run()
        finally:
            await adapter.aclose()


asyncio.run(main())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTheatre:
    """A committed theatre whose construct is served over HTTP and counted."""

    stage: Stage
    folder: Path
    port: int

    @property
    def _arguments(self) -> list[str]:
        return [
            str(self.folder / "runner.py"),
            str(self.stage.folder.parents[1]),
            self.stage.theatre_id,
            PILOT,
            f"http://127.0.0.1:{self.port}",
            str(BATCH),
        ]

    def hold_from(self, seq: int) -> None:
        """Let the construct keep its answers from episode `seq` on to itself."""
        draft = self.folder / "hold.partial"
        draft.write_text(str(seq), encoding="utf-8")
        draft.rename(self.folder / "hold")

    def let_go(self) -> None:
        """Let it answer."""
        (self.folder / "hold").unlink()

    def calls(self) -> list[list[str]]:
        """Return invocation id, key and calls under way of every call that arrived."""
        log = self.folder / "calls.log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def called(self) -> Counter[str]:
        """Return how often each invocation id was called."""
        return Counter(call[0] for call in self.calls())

    def recorded(self) -> list[bytes]:
        """Return the lines of the journal that count."""
        return recorded_lines(self.stage.folder)

    def stopped_by(self, number: signal.Signals, *, recorded: int = 0, called: int = 0) -> Answer:
        """Run until so much is recorded and called, then send the signal; return how it ended."""
        arguments, home = self._arguments, self.folder / "home"
        with started(*arguments, home=home, command=[sys.executable]) as run:
            until(
                lambda: (
                    (len(self.recorded()) >= recorded and len(self.calls()) >= called)
                    or run.poll() is not None
                ),
                f"{recorded} episodes and {called} calls",
            )
            run.send_signal(number)
            return ended(run)

    def finished(self) -> bytes:
        """Run to the end; return the score lines of its bundle."""
        arguments, home = self._arguments, self.folder / "home"
        with started(*arguments, home=home, command=[sys.executable]) as run:
            answer = ended(run)
        assert answer.code == 0, answer.stderr
        return (self.bundle / "scores" / "per_episode.jsonl").read_bytes()

    @property
    def bundle(self) -> Path:
        """Return where its bundle is once it is sealed."""
        return self.stage.folder / bundle_name(self.stage.theatre_id)

    def document(self, path: str) -> JsonObject:
        """Return a document of its bundle."""
        return parse_object((self.bundle / path).read_bytes())


def ids_of(records: list[bytes]) -> list[str]:
    return [
        json.loads(line)["invocation"]["calls"][0]["request"]["invocation_id"] for line in records
    ]


FEW_FAILURES = {
    seq: "err" if seq % 2 else "refuse" if seq % 4 else "blue" for seq in range(7, EPISODES, 9)
}
TOO_MANY_FAILURES = FEW_FAILURES | dict.fromkeys(range(42, EPISODES, 3), "err")


@contextmanager
def served_theatre(folder: Path, behaviour: dict[int, str]) -> Iterator[ServedTheatre]:
    records = episodes(EPISODES)
    for seq, do in behaviour.items():
        cast("JsonObject", records[seq - 1]["input_data"])["do"] = do
    stage = pilot_stage(
        folder / "theatre",
        records,
        changes={
            **SIXTEEN,
            "/version_pins/adapter_version": "http@1",
            "/product_theatre_config/adapter_type": "http",
        },
    )
    for name, source in {"pilot.py": CONSTRUCT, "server.py": SERVER, "runner.py": RUNNER}.items():
        (folder / name).write_text(source, encoding="utf-8")
    command = [sys.executable, "-P", str(folder / "server.py"), str(folder / "calls.log")]
    options = ["--id", PILOT, "--version", VERSION]
    with http_service(folder, command=command, options=options) as service:
        yield ServedTheatre(stage=stage, folder=folder, port=service.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a run that nobody disturbs comes to."""

    lines: bytes
    results_hash: object


@pytest.fixture(scope="module", params=["goes to the end", "ends at the threshold"])
def behaviour(request: pytest.FixtureRequest) -> dict[int, str]:
    return FEW_FAILURES if request.param == "goes to the end" else TOO_MANY_FAILURES


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, behaviour: dict[int, str]) -> Undisturbed:
    with served_theatre(tmp_path_factory.mktemp("undisturbed"), behaviour) as theatre:
        lines = theatre.finished()
        under_way = [int(call[2]) for call in theatre.calls()]
        assert 1 < max(under_way) <= CALLS
        assert set(theatre.called().values()) == {1}
        assert all(call[0] == call[1] for call in theatre.calls())
        return Undisturbed(
            lines=lines, results_hash=theatre.document("certificate.json")["results_hash"]
        )


def ends_as(theatre: ServedTheatre, undisturbed: Undisturbed) -> None:
    """Run to the end: the results are the undisturbed ones, the evidence is whole."""
    assert theatre.finished() == undisturbed.lines
    assert theatre.document("certificate.json")["results_hash"] == undisturbed.results_hash
    trail = (theatre.bundle / "audit_trail.jsonl").read_bytes().splitlines()
    entries = [parse_object(line) for line in trail]
    verify_chain(entries, theatre_id=theatre.stage.theatre_id)
    covered = [
        seq
        for entry in entries
        if entry["event_type"] == "episodes_recorded"
        for first, last in cast("dict[str, list[list[int]]]", entry["detail"])["seqs"]
        for seq in range(first, last + 1)
    ]
    assert sorted(covered) == journalled(theatre.stage)
    assert len(set(covered)) == len(covered)
    (step, _) = cast("list[JsonObject]", theatre.document("resolution.json")["steps"])
    result = cast("dict[str, int]", step["result"])
    assert result["episodes_recorded"] + result["episodes_discarded"] == len(covered)
    assert [check.as_document() for check in checked(theatre.bundle).failed] == []
    stage = theatre.stage
    known = {stage.draws.invocation_id(stage.theatre_id, seq=seq) for seq in range(1, EPISODES + 1)}
    assert set(theatre.called()) <= known


@pytest.mark.parametrize("held", [20, 101])
def test_a_kill_costs_no_more_than_the_calls_that_were_not_durable(
    tmp_path: Path, undisturbed: Undisturbed, behaviour: dict[int, str], held: int
) -> None:
    with served_theatre(tmp_path, behaviour) as theatre:
        theatre.hold_from(held)
        # All answers before are in once sixteen calls behind them are out.
        stopped = theatre.stopped_by(signal.SIGKILL, called=held - 1 + CALLS)
        assert stopped.code == -signal.SIGKILL
        recorded, called = theatre.recorded(), theatre.called()
        lost = set(called) - set(ids_of(recorded))
        assert (len(called), set(called.values())) == (held - 1 + CALLS, {1})
        assert CALLS <= len(lost) <= BATCH
        theatre.let_go()

        ends_as(theatre, undisturbed)
        assert theatre.recorded()[: len(recorded)] == recorded
        # Exactly what was lost is called again, under the same ids; the rest never is.
        again = theatre.called()
        assert {name for name, times in again.items() if times > 1} == lost
        assert max(again.values()) == 2


@pytest.mark.parametrize("seed", range(1, 8 if SOAK else 2))
def test_a_run_that_is_killed_at_any_moment_again_and_again_comes_to_the_same_end(
    tmp_path: Path, undisturbed: Undisturbed, behaviour: dict[int, str], seed: int
) -> None:
    with served_theatre(tmp_path, behaviour) as theatre:
        kept: list[bytes] = []
        risked = 0
        for kill in range(1, 4):
            theatre.hold_from(110)
            threshold = min(100, len(kept) + drawn(10 * seed + kill, 25))
            assert theatre.stopped_by(signal.SIGKILL, recorded=threshold).code == -signal.SIGKILL
            assert theatre.recorded()[: len(kept)] == kept
            kept, before = theatre.recorded(), theatre.called()
            risked += BATCH
            theatre.let_go()
            assert all(before[name] >= 1 for name in ids_of(kept))
        final = {name: theatre.called()[name] for name in ids_of(kept)}
        ends_as(theatre, undisturbed)
        again = theatre.called()
        assert {name: again[name] for name in final} == final
        assert again.total() - len(again) <= risked


def test_an_interrupted_run_keeps_every_answer_that_is_in(
    tmp_path: Path, undisturbed: Undisturbed, behaviour: dict[int, str]
) -> None:
    with served_theatre(tmp_path, behaviour) as theatre:
        theatre.hold_from(64)
        theatre.stopped_by(signal.SIGINT, called=63 + CALLS)
        assert journalled(theatre.stage) == list(range(1, 64))
        theatre.let_go()
        ends_as(theatre, undisturbed)
        assert sum(times > 1 for times in theatre.called().values()) == CALLS
