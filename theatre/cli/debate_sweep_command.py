"""`echelon debate sweep`: run a plan into a folder, go on where it stopped, print one table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from theatre.cli.input_files import read_file
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.tables import print_table
from theatre.debate.errors import InvalidDebateError, SweepError
from theatre.debate.models import Debate
from theatre.debate.runner import DebateRun
from theatre.debate.scripted import Scenario, ScriptedDebater, read_scenario
from theatre.debate.sweep import SweepPlan, SweepRun, read_plan, runs_of, table
from theatre.debate.times import counting_clock
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import (
    JsonObject,
    canonical_line,
    canonical_sha256,
    parse_object,
)
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.durable import replace_durably

PLAN = "sweep.json"


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), required=True, help="For the runs."
)
@json_option
def sweep(plan_path: Path, *, folder: Path, as_json: bool) -> None:
    """Run every seed of PLAN under every configuration; runs that are there are kept."""
    document = parse_object(read_file(plan_path, what="a sweep plan"))
    plan = read_plan(document)
    source = read_file(plan_path.parent / plan.scenario, what="a scenario")
    scenario = read_scenario(parse_object(source))
    _claim_folder(folder, {"plan": document, "scenario": parse_object(source)})
    done = 0
    for run in runs_of(plan, scenario):
        done += _run_once(folder, run, scenario)
    names = [one.name for one in plan.configurations]
    rows = table(_debates(folder, plan, scenario), scenario, names)
    if as_json:
        print_document({"debate_id": scenario.debate_id, "new_runs": done, "cells": rows})
    else:
        _print(rows)
        echo(f"{done} new run(s) in {folder}", err=True)


def _claim_folder(folder: Path, content: JsonObject) -> None:
    """Make the folder this sweep's own. Raises SweepError where it is another's."""
    path = folder / PLAN
    if path.exists():
        if canonical_sha256(parse_object(path.read_bytes())) != canonical_sha256(content):
            raise SweepError(f"expected a folder of this sweep, got one of another: {folder}")
        return
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    replace_durably(path, canonical_line(content))


def _run_once(folder: Path, run: SweepRun, scenario: Scenario) -> int:
    """Make a run unless a whole one is there; return how many were made."""
    path = _path(folder, run)
    if _read(path, SchemaRegistry()) is not None:
        return 0
    entries: list[JsonObject] = []
    disposition = run.configuration.debaters.disposition()
    debater = ScriptedDebater(scenario, disposition, run.seed)
    speakers = {agent: debater for agent, _ in run.plan.participants}
    artefact = asyncio.run(DebateRun(run.plan, counting_clock(), entries.append).run(speakers))
    # The log first: an artefact that is there has its log.
    replace_durably(path.with_suffix(".log.jsonl"), b"".join(map(canonical_line, entries)))
    replace_durably(path, canonical_line(artefact))
    return 1


def _debates(folder: Path, plan: SweepPlan, scenario: Scenario) -> Iterator[tuple[str, Debate]]:
    registry = SchemaRegistry()
    for run in runs_of(plan, scenario):
        debate = _read(_path(folder, run), registry)
        if debate is not None:
            yield run.configuration.name, debate


def _path(folder: Path, run: SweepRun) -> Path:
    return folder / "runs" / f"{run.plan.run_id}.json"


def _read(path: Path, registry: SchemaRegistry) -> Debate | None:
    try:
        return read_debate(path.read_bytes(), registry=registry).debate
    except (FileNotFoundError, ParseError, InvalidDebateError):
        return None  # not there, or torn: it is made again


def _print(rows: list[JsonObject]) -> None:
    header = (
        "configuration",
        "runs",
        "attempts/turn",
        "final true",
        "paranoia",
        "realignment",
        "net",
    )
    print_table(
        header,
        [
            (
                str(row["configuration"]),
                str(row["runs"]),
                _figure(row["attempts_per_turn"]),
                _rate(row["final_answers_true"]),
                _rate(_part(row["per_retry"], "paranoia_rate")),
                _rate(_part(row["per_retry"], "realignment_rate")),
                _figure(_part(row["endpoints"], "net_effect")),
            )
            for row in rows
        ],
    )


def _part(value: object, member: str) -> object:
    return value.get(member) if isinstance(value, dict) else None


def _figure(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-"


def _rate(estimate: object) -> str:
    value, interval = _part(estimate, "value"), _part(estimate, "interval")
    low, high = _part(interval, "low"), _part(interval, "high")
    return "-" if value is None else f"{_figure(value)} ({_figure(low)} … {_figure(high)})"
