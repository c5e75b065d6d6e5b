"""A sweep that is killed in its midst goes on, and comes to what it would have come to."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tests.theatre.debate.scripted_runs import FIXTURES, scenario
from tests.theatre.echelon_process import echelon, ended, started, until
from theatre.debate.event_log import view_of
from theatre.debate.sweep import read_plan, runs_of
from theatre.engine.canonical_json import canonical_bytes, parse_object

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
