"""Easel's chain when something goes wrong: a changed byte, a dead service, a score that is none."""

import asyncio
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.easel_runs import (
    CHAIN,
    CONSTRUCTS,
    RUBRIC,
    TEMPLATE,
    easel_adapters,
    easel_stage,
    items_of,
    let_demo_reviewers_score,
    with_authors,
)
from tests.theatre.echelon_process import until
from tests.theatre.rated_runs import details, rate, trail_of
from tests.theatre.runs import Finished, RunOptions, Stage, with_changes
from tests.theatre.thinned import thinned
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores
from theatre.engine.canonical_json import JsonValue
from theatre.engine.errors import HumanScoreRefusedError, PinMismatchError
from theatre.engine.oracle_contract import Attempt, Isolation, OracleInvocationRequest
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.oracles.served import ServedOracleAdapter

PINS = cast("dict[str, dict[str, str]]", TEMPLATE["version_pins"])["constructs"]
MODULES = {"easel": "easel.py", "artisan": "design_tokens.py", "mint": "vocabulary.json"}


def copied_constructs(folder: Path) -> Path:
    """Copy the constructs; return their registry. Their versions stay what they are."""
    shutil.copytree(
        CONSTRUCTS.parent, folder, ignore=shutil.ignore_patterns("__pycache__", "hostile")
    )
    return folder / CONSTRUCTS.name


@pytest.mark.parametrize("changed", CHAIN)
def test_one_byte_of_any_construct_changes_its_pin_and_the_old_commitment_is_refused(
    tmp_path: Path, changed: str
) -> None:
    registry = copied_constructs(tmp_path / "constructs")
    file = registry.with_name(changed) / MODULES[changed]
    raw = bytearray(file.read_bytes())
    raw[-2] ^= 1
    file.write_bytes(raw)
    found = ConstructRegistry.load(registry)
    versions = {name: construct_version(found.find(name)) for name in CHAIN}
    assert {name for name in CHAIN if versions[name] != PINS[name]} == {changed}
    with pytest.raises(PinMismatchError) as caught:
        easel_stage(tmp_path / "run").run(easel_adapters(registry))
    assert str(caught.value).startswith(
        f"expected construct {changed} (hop {CHAIN.index(changed)}) "
        f"in version {PINS[changed]} (committed), got {versions[changed]}: "
    )


# --- a service that is killed while it works --------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A running service: its process, and the port that it serves."""

    pid: int
    port: int

    def has_stopped(self) -> bool:
        """Tell whether no thread runs any more: one may still read after another met the signal."""
        stats = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return {stat.read_text().rpartition(") ")[2][0] for stat in stats} == {"T"}

    def has_unread_question(self) -> bool:
        """Tell whether something was sent to the port that nobody has read yet."""
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, queues, *_ = line.split()
            is_open = (int(local.split(":")[1], 16), state) == (self.port, "01")
            if is_open and int(queues.split(":")[1], 16):
                return True
        return False


def service_of(name: str, port: int) -> Process:
    """Return the running service of this process that serves the construct `name`.

    They run from private copies of their files, in folders that nobody else knows, and may have
    the processes that isolate them between them and this one.
    """
    (found,) = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal()
        if any(argument.startswith(f"{name}:") for argument in argv_of(entry))
        if os.getpid() in ancestors_of(int(entry.name))
    ]
    return Process(found, port)


def argv_of(entry: Path) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def ancestors_of(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        while pid:
            stat = Path(f"/proc/{pid}/stat").read_text()
            pid = int(stat.rpartition(") ")[2].split()[1])
            yield pid


class Doomed:
    """A service that is killed once, while it holds a question that it has not answered.

    The question is the first try of `fatal`, an invocation id.
    """

    def __init__(self, service: ServedOracleAdapter, name: str, *, fatal: str) -> None:
        self._service = service
        self._name = name
        self._fatal = fatal
        self.killed: Process | None = None

    @property
    def pin(self) -> str:
        """Return the service's."""
        return self._service.pin

    @property
    def computed_version(self) -> str | None:
        """Return the service's."""
        return self._service.computed_version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return the service's."""
        return await self._service.probe_isolation(closed)

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Ask the service; one question meets its death."""
        if request.invocation_id != self._fatal or self.killed is not None:
            return await self._service.invoke(request)
        running = self._service._running  # noqa: SLF001
        assert running is not None
        process = service_of(self._name, running.process._port)  # noqa: SLF001
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.to_thread(until, process.has_stopped, "each thread stopped")
        asked = asyncio.ensure_future(self._service.invoke(request))
        await asyncio.to_thread(until, process.has_unread_question, "a question")
        os.kill(process.pid, signal.SIGKILL)
        self.killed = process
        return await asked

    async def aclose(self) -> None:
        """End the service."""
        await self._service.aclose()


def run_doomed(folder: Path, name: str, changes: Mapping[str, JsonValue]) -> Finished:
    """Run ten episodes to the end, with one of the three killed at the fourth of them."""
    services = easel_adapters()
    template = with_changes(thinned(TEMPLATE, folder / "data", step=9), changes)
    stage = easel_stage(folder / "run", template=template, data=folder / "data")
    fatal = stage.draws.invocation_id(stage.theatre_id, seq=4, hop=CHAIN.index(name))
    doomed = Doomed(services[name], name, fatal=fatal)
    stage.run({**services, name: doomed}, concurrency_limit=1)
    assert doomed.killed is not None
    let_demo_reviewers_score(stage)
    return stage.run(services)


@pytest.mark.parametrize("name", CHAIN)
def test_the_death_of_any_construct_is_an_error_at_its_hop_and_after_its_restart_the_run_goes_on(
    tmp_path: Path, name: str
) -> None:
    finished = run_doomed(tmp_path, name, {"/execution_policy/retry_policy/max_retries": 0})
    (failed,) = details(finished.trail, "episode_failed")
    assert (failed["seq"], failed["construct_id"], failed["hop"]) == (4, name, CHAIN.index(name))
    assert (failed["status"], failed["reason"]) == ("error", "disconnected")
    outcomes = Counter(line["outcome"] for line in finished.lines("scores/per_episode.jsonl"))
    assert outcomes == {"scored": 9, "missing": 1}
    last = finished.calls(4)[-1]
    (attempt,) = cast("list[dict[str, Any]]", last["attempts"])
    assert last["construct_id"] == name
    assert "SIGKILL" in attempt["stderr"]
    (step,) = [one for one in finished.steps() if one["step_id"] == "follow_decisions"]
    hops = cast("dict[str, Any]", step["result"])["output"]["hops"]
    assert [hop["hop"] for hop in hops if hop["unanswered"]] == [name]


def test_as_committed_a_death_costs_one_try_and_no_episode(tmp_path: Path) -> None:
    finished = run_doomed(tmp_path, "artisan", {})
    (call,) = [c for c in finished.calls(4) if (c["hop"], c["repeat"]) == (1, 0)]
    attempts = cast("list[dict[str, Any]]", call["attempts"])
    assert [one["reason"] for one in attempts] == ["disconnected", None]
    assert details(finished.trail, "episode_failed") == []
    assert {line["outcome"] for line in finished.lines("scores/per_episode.jsonl")} == {"scored"}


# --- who may score -----------------------------------------------------------------------------


@pytest.fixture
def waiting(tmp_path: Path) -> Stage:
    """Ten episodes of the theatre, at its rubric; who wrote Mint is known."""
    template = thinned(TEMPLATE, tmp_path / "data", step=9)
    stage = easel_stage(tmp_path / "run", template=template, data=tmp_path / "data")
    known: RunOptions = with_authors({"easel": None, "artisan": None, "mint": "Minna Mint"})
    stage.run(easel_adapters(), **known)
    return stage


def refusal(stage: Stage, scorer: str, scores: dict[str, Any]) -> set[str]:
    with pytest.raises(HumanScoreRefusedError) as caught:
        rate(stage, scorer, scores)
    return {code for code, _ in caught.value.refusals}


def test_scores_of_authors_off_the_scale_or_given_twice_are_refused_and_one_of_two_is_not_enough(
    waiting: Stage,
) -> None:
    shown = items_of(waiting)
    first = shown[0].episode_id
    assert refusal(waiting, " echelon THEATRE", {first: 5}) == {"scorer-is-author"}
    assert refusal(waiting, "minna mint", {first: 5}) == {"scorer-is-author"}
    assert refusal(waiting, "Grace", {first: 5.5}) == {"score-off-scale"}
    assert refusal(waiting, "Grace", {first: 0}) == {"score-off-scale"}
    rate(waiting, "Grace", {item.episode_id: 3.5 for item in shown})
    assert refusal(waiting, "GRACE ", {first: 4}) == {"item-already-scored"}
    alone = waiting.run(easel_adapters())
    assert (waiting.state, alone.bundle.exists()) == ("SETTLING", False)
    rate(waiting, "Edsger", demo_scores("demo-reviewer-b", shown))
    finished = waiting.run(easel_adapters())
    assert finished.resolution["outcome"] == "certified"
    trail = trail_of(waiting)
    assert [(one["scorer"], one["code"]) for one in details(trail, "human_score_refused")] == [
        ("echelon THEATRE", "scorer-is-author"),
        ("minna mint", "scorer-is-author"),
        ("Grace", "score-off-scale"),
        ("Grace", "score-off-scale"),
        ("GRACE", "item-already-scored"),
    ]
    assert {one["step_id"] for one in details(trail, "human_score_refused")} == {RUBRIC}
    taken = Counter(one["scorer"] for one in details(trail, "human_score"))
    assert taken == {"Grace": len(shown), "Edsger": len(shown)}
    assert finished.lines(f"hitl/{RUBRIC}.jsonl")[0]["scorer"] == "Grace"
    assert set(REVIEWERS).isdisjoint(taken)
