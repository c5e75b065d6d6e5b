"""Runs in the loop and after the fact, of scripted debaters and of a construct in a process.

A sweep that is killed in its midst comes to what it would have come to."""

import asyncio
import itertools
import json
import os
import shutil
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.debate.debates import ADVICE
from tests.theatre.debate.scripted_runs import FIXTURES, plan, run_with, scenario, scripted, valid
from tests.theatre.echelon_process import echelon, ended, started, until
from tests.theatre.forked_echelon import forked
from theatre.debate.debaters import ConstructDebater, DebaterAnswer, TurnRequest
from theatre.debate.errors import DebateRunError
from theatre.debate.evaluators import pid, raudit
from theatre.debate.evaluators.raudit import Transitions
from theatre.debate.event_log import view_of
from theatre.debate.history import find_rewrites
from theatre.debate.pid import mismatches
from theatre.debate.scripted import Disposition, ScriptedDebater
from theatre.debate.sweep import read_plan, runs_of
from theatre.engine.canonical_json import canonical_bytes, parse_object
from theatre.oracles.construct_registry import construct_from_argv, local_adapter_for
from theatre.oracles.retry import make_retrying_invoker


def test_a_run_in_the_loop_is_valid_replays_and_is_the_view_of_its_log() -> None:
    artefact, entries = run_with(ScriptedDebater(scenario(), Disposition(care=0.4), 11))
    debate = valid(artefact)
    assert list(mismatches(debate)) == []
    assert pid.evaluate(debate).summary["control_replay_ok"] is True
    subject = f"{debate.debate_id}/{debate.run_id}"
    seen = view_of(entries, subject=subject).document()
    assert canonical_bytes(seen) == canonical_bytes(artefact)
    shown = [view_of(entries[:n], subject=subject).document() for n in range(1, len(entries) + 1)]
    for old, new in itertools.pairwise(shown):
        assert list(find_rewrites(old, new)) == []


def test_retries_escalate_and_every_one_of_them_was_asked_for() -> None:
    debate = valid(scripted(11, disposition=Disposition(care=0.0)))
    for turn in debate.turns:
        attempts = turn.attempts or []
        states = [attempt.control_state for attempt in attempts]
        assert [one.strategy_level for one in states if one] == ["direct", "cot", "code"][
            : len(attempts)
        ]
        asked = [one for one in debate.intervention_log or [] if one.turn_index == turn.turn_index]
        assert len(asked) == len(attempts) - 1
    assert sum(len(turn.attempts or []) for turn in debate.turns) > len(debate.turns)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first, again, other = scripted(4), scripted(4), scripted(5)
    assert canonical_bytes(first) == canonical_bytes(again)
    assert canonical_bytes(first) != canonical_bytes(other)


def test_a_run_after_the_fact_has_no_attempts_and_no_rates() -> None:
    debate = valid(scripted(4, mode="posthoc"))
    assert [turn.attempts for turn in debate.turns] == [None] * 4
    summary: Any = raudit.evaluate(debate, {"*": "BUY"}).summary
    assert (summary["turns"], summary["per_retry"]["net_effect"]) == (0, None)


class Saying:
    """A debater that says the same whatever it is asked, after a number of other answers."""

    def __init__(self, *answers: DebaterAnswer) -> None:
        self._answers = list(answers)

    async def answer(self, request: TurnRequest) -> DebaterAnswer:
        return self._answers[min(request.attempt_index, len(self._answers) - 1)]


def stops(debater: Saying, **members: Any) -> list[tuple[str, int]]:  # noqa: ANN401  # the plan's
    artefact, _ = run_with(debater, rounds=1, **members)
    return [
        (str((turn.turn_metadata or {})["stopped_by"]), len(turn.attempts or []))
        for turn in valid(artefact).turns
    ]


def test_a_turn_stops_when_it_passes_abstains_or_has_used_up_its_retries() -> None:
    at_odds = DebaterAnswer(
        content="Buy it.", final_answer="BUY", reasoning_trace="So SELL.", recommendation=ADVICE
    )
    good = DebaterAnswer(content="Buy it.", final_answer="BUY", reasoning_trace="So BUY.")
    silent = DebaterAnswer(content="I cannot say.", final_answer="")
    assert stops(Saying(good)) == [("passed", 1)] * 2
    assert stops(Saying(at_odds, good)) == [("passed", 2)] * 2
    assert stops(Saying(at_odds)) == [("limit", 3)] * 2
    assert stops(Saying(at_odds), max_retries=0) == [("limit", 1)] * 2
    assert stops(Saying(at_odds, silent)) == [("abstained", 2)] * 2


def test_unstructured_attempts_are_judged_by_consistency_alone_and_move_no_controller() -> None:
    good = DebaterAnswer(content="Buy it.", final_answer="BUY")
    debate = valid(run_with(Saying(good))[0])
    audits = [one.audit for turn in debate.turns for one in turn.attempts or []]
    assert [(one.crit, one.pid) for one in audits if one] == [(None, None)] * 4


def test_estimators_recover_the_known_rates() -> None:
    """Of 40 intervals at 95 %, at least 34 hold the truth; by chance fewer in 1.4 of 1,000."""
    held = total = 0
    for number in range(20):
        disposition = Disposition(
            competence=0.5,
            care=0.4,
            susceptibility=0.1 + 0.04 * number,
            hint_pressure=0.9,
            responsiveness=0.9 - 0.04 * number,
        )
        seen = Transitions()
        for seed in range(12):
            debate = valid(scripted(1000 * number + seed, disposition=disposition))
            for turn in debate.turns:
                answers = [one.final_answer == "BUY" for one in turn.attempts or []]
                seen += raudit.transitions(answers)
        figures: Any = seen.as_document()
        for name in ("paranoia_rate", "realignment_rate"):
            interval = figures[name]["interval"]
            held += interval["low"] <= getattr(disposition, name) <= interval["high"]
            total += 1
    assert total == 40
    assert held >= 34


DEBATER = """
import json
import os
import sys

for line in sys.stdin:
    request = json.loads(line)
    asked = request["input_data"]
    said = f"{asked['speaker_id']} heard {len(asked['heard'])}."
    output = {"content": said, "final_answer": "BUY"}
    if asked["turn_index"] == 9:
        output = {"content": "", "final_answer": None}
    if asked["turn_index"] == 8:
        output["recommendation"] = {"action": "PRAY"}
    reply = {"invocation_id": request["invocation_id"], "construct_id": request["construct_id"]}
    reply["construct_version"] = os.environ["ECHELON_CONSTRUCT_VERSION"]
    print(json.dumps({**reply, "status": "success", "output_data": output}), flush=True)
"""


def test_a_construct_debates_through_its_adapter(tmp_path: Path) -> None:
    program = tmp_path / "construct" / "main.py"
    program.parent.mkdir()
    program.write_text(DEBATER, encoding="utf-8")
    argv = json.dumps(["{python}", str(program)])
    construct = construct_from_argv("talker", argv, program.parent)
    adapter = local_adapter_for(
        construct, clock=lambda: datetime.now(UTC), monotonic=time.monotonic
    )
    debater = ConstructDebater(
        adapter,
        invoke=make_retrying_invoker(asyncio.sleep),
        construct_id="talker",
        construct_version=str(adapter.computed_version),
        clock=lambda: datetime.now(UTC),
    )
    asyncio.run(_debate_and_misbehave(debater))


async def _debate_and_misbehave(debater: ConstructDebater) -> None:
    from theatre.debate.models import counting_clock  # (the same)
    from theatre.debate.runner import DebateRun  # the loop of one test

    try:
        run = DebateRun(plan(mode="posthoc"), counting_clock(), lambda _entry: None)
        artefact: Any = await run.run({"ann": debater, "bo": debater})
        assert [turn["content"] for turn in artefact["turns"]] == [
            "ann heard 0.",
            "bo heard 1.",
            "ann heard 2.",
            "bo heard 3.",
        ]
        request = TurnRequest(
            debate_id="d",
            run_id="r",
            scenario={},
            speaker_id="ann",
            role="analyst",
            turn_index=9,
            round_index=1,
            attempt_index=0,
            heard=(),
            instruction=None,
            strategy_level="direct",
            persona="balanced",
        )
        with pytest.raises(DebateRunError, match="expected content and final_answer"):
            await debater.answer(request)
        with pytest.raises(DebateRunError, match="got at action: Input should be"):
            await debater.answer(_at(request, 8))
    finally:
        await debater._adapter.aclose()  # noqa: SLF001  # the test owns the process


def _at(request: TurnRequest, turn_index: int) -> TurnRequest:
    from dataclasses import replace  # used once

    return replace(request, turn_index=turn_index)


def test_a_sweep_goes_on_where_it_stopped_and_keeps_its_folder(tmp_path: Path) -> None:
    source = json.loads((FIXTURES / "sweep.json").read_bytes())
    source["seeds"] = {"first": 3, "count": 4}
    shutil.copytree(FIXTURES / "scenarios", tmp_path / "scenarios")
    path, out = tmp_path / "plan.json", tmp_path / "out"
    path.write_text(json.dumps(source), encoding="utf-8")

    def swept() -> Any:  # noqa: ANN401  # a JSON document
        answer = forked("debate", "sweep", path, "--out", out, "--json", home=tmp_path / "home")
        assert answer.code == 0, answer.stderr
        return answer.document

    first = swept()
    runs = sorted((out / "runs").glob("*[!g].json"))
    assert (first["new_runs"], len(runs)) == (12, 12)
    assert [cell["configuration"] for cell in first["cells"]] == [
        "posthoc",
        "in_loop",
        "in_loop_pressed",
    ]
    whole = {path: path.read_bytes() for path in runs}
    runs[3].unlink()
    runs[5].write_bytes(runs[5].read_bytes()[:100])
    again = swept()
    assert (again["new_runs"], again["cells"]) == (2, first["cells"])
    assert {path: path.read_bytes() for path in runs} == whole
    source["rounds"] = 3
    path.write_text(json.dumps(source), encoding="utf-8")
    other = forked("debate", "sweep", path, "--out", out, home=tmp_path / "home")
    assert (other.code, "of another" in other.stderr) == (5, True)


SEEDS = 4


def a_plan(folder: Path) -> Path:
    source: Any = json.loads((FIXTURES / "sweep.json").read_bytes())
    source["seeds"]["count"] = SEEDS
    shutil.copytree(FIXTURES / "scenarios", folder / "scenarios")
    path = folder / "plan.json"
    path.write_text(json.dumps(source), encoding="utf-8")
    return path


def kept(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "runs").iterdir()}


def test_a_killed_sweep_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    plan, home = a_plan(tmp_path), tmp_path / "home"
    out, whole = tmp_path / "out", tmp_path / "whole"
    runs = list(runs_of(read_plan(parse_object(plan.read_bytes())), scenario()))
    # Whoever looks whether this run is there waits for a writer who never comes.
    stop = out / "runs" / f"{runs[7].plan.run_id}.json"
    stop.parent.mkdir(parents=True)
    os.mkfifo(stop)
    last = stop.with_name(f"{runs[6].plan.run_id}.json")
    with started("debate", "sweep", plan, "--out", out, home=home) as process:
        until(last.is_file, "seven runs", pause=0.05)
        process.send_signal(signal.SIGKILL)
        assert ended(process).code == -signal.SIGKILL
    stop.unlink()
    before = kept(out)
    assert len(before) == 2 * 7
    again = echelon("debate", "sweep", plan, "--out", out, "--json", home=home).document
    alone = echelon("debate", "sweep", plan, "--out", whole, "--json", home=home).document
    assert (again["new_runs"], alone["new_runs"]) == (len(runs) - 7, len(runs))
    assert again["cells"] == alone["cells"]
    assert kept(out) == kept(whole)
    assert {name: kept(out)[name] for name in before} == before
    for run in runs:
        path = out / "runs" / f"{run.plan.run_id}.json"
        log = path.with_suffix(".log.jsonl").read_bytes().splitlines()
        subject = f"{run.plan.debate_id}/{run.plan.run_id}"
        seen = view_of(map(parse_object, log), subject=subject)
        assert (seen.is_closed, canonical_bytes(seen.document()) + b"\n") == (
            True,
            path.read_bytes(),
        )
