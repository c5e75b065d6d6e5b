"""`echelon debate sweep`: run a plan into a folder, go on where it stopped, print one table."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from theatre.api.connections import check_all_reachable, make_adapter
from theatre.api.named_files import read_file
from theatre.api.theatre_run import cancel_on_signal
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import CommandEndedError, ExitCode, echo, json_option, print_document
from theatre.cli.tables import print_table
from theatre.debate.debaters import ConstructDebater, Debater
from theatre.debate.errors import DebateRunError, InvalidDebateError, SweepError
from theatre.debate.models import Debate, counting_clock
from theatre.debate.runner import DebateRun
from theatre.debate.scripted import Scenario, ScriptedDebater, read_scenario
from theatre.debate.sweep import SweepPlan, SweepRun, read_plan, runs_of, table
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, canonical_line, canonical_sha256, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.durable import replace_durably
from theatre.oracles.construct_registry import RemoteConstruct, construct_version
from theatre.oracles.endpoints import Construct, ReachableAdapter
from theatre.oracles.retry import make_retrying_invoker, require_reachable

# The constructs that debate in a sweep: their versions, and the way to each.


def versions_of(plan: SweepPlan, workspace: Workspace, folder: Path) -> dict[str, str]:
    """Return the version of each construct in the plan: computed, or for a URL the plan's own pin.

    Raises SweepError where a pin is missing or differs, and what `find_registered` raises.
    """
    return {
        one: _version(workspace.find_registered(one, folder), plan.pins.get(one))
        for one in plan.constructs
    }


@contextlib.asynccontextmanager
async def open_debaters(
    versions: Mapping[str, str], workspace: Workspace, folder: Path
) -> AsyncIterator[Mapping[str, ConstructDebater]]:
    """Start or connect every construct, by its id; close them all.

    One that is gone later raises ConstructUnreachableError in the midst of its run.
    """
    adapters: dict[str, ReachableAdapter] = {}
    async with contextlib.AsyncExitStack() as stack:
        for one in versions:
            adapters[one] = make_adapter(workspace.find_registered(one, folder), workspace)
            stack.push_async_callback(adapters[one].aclose)
        await check_all_reachable(adapters)
        invoke = require_reachable(make_retrying_invoker(asyncio.sleep), adapters)
        yield {
            one: ConstructDebater(
                adapters[one],
                invoke=invoke,
                construct_id=one,
                construct_version=version,
                clock=utc_now,
            )
            for one, version in versions.items()
        }


def _version(construct: Construct, pin: str | None) -> str:
    name = construct.construct_id
    if isinstance(construct, RemoteConstruct):
        if pin is None:
            raise SweepError(f"expected a version of {name} in pins, got none: it has a url")
        return pin
    version = construct_version(construct)
    if pin not in {None, version}:
        raise SweepError(f"expected {name} at version {pin}, got {version}")
    return version


PLAN = "sweep.json"


@click.command(short_help="Run every seed of a plan under each configuration.")
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), required=True, help="Folder for the runs."
)
@json_option
def sweep(plan_path: Path, *, folder: Path, as_json: bool) -> None:
    """Run every seed of PLAN under every configuration; runs that are there are kept.

    Where a construct gives no answer that a turn can be made of, that run is left out, and tried
    again by the same command: exit 8.
    """
    document = parse_object(read_file(plan_path, what="a sweep plan"))
    plan = read_plan(document)
    source = parse_object(read_file(plan_path.parent / plan.scenario, what="a scenario"))
    workspace = Workspace.from_environment()
    versions = versions_of(plan, workspace, plan_path.parent)
    constructs: JsonObject = {"constructs": {**versions}} if versions else {}
    _claim_folder(folder, {"plan": document, "scenario": source, **constructs})
    one = _Sweep(folder=folder, plan=plan, scenario=read_scenario(source), versions=versions)
    try:
        made = asyncio.run(one.make_missing(workspace, plan_path.parent))
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    _report(one, made, as_json=as_json)
    if made.failures:
        raise CommandEndedError(ExitCode.INCOMPLETE)


@dataclass(slots=True)
class _Made:
    runs: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sweep:
    folder: Path
    plan: SweepPlan
    scenario: Scenario
    versions: Mapping[str, str]
    """Of the constructs that debate."""

    def runs(self) -> Iterator[SweepRun]:
        """Yield every run, made or not."""
        return runs_of(self.plan, self.scenario, self.versions)

    async def make_missing(self, workspace: Workspace, places: Path) -> _Made:
        """Make every run that is not there whole; `places` is where constructs are looked up."""
        registry, made = SchemaRegistry(), _Made()
        total = self.plan.seeds.count * len(self.plan.configurations)
        shown = click.progressbar(self.runs(), total, "runs", file=sys.stderr)
        with cancel_on_signal(signal.SIGTERM), shown:
            async with open_debaters(self.versions, workspace, places) as constructs:
                for run in shown:
                    if _read(self.path(run), registry) is not None:
                        continue
                    name = run.configuration.construct_id
                    try:
                        await self._make(run, None if name is None else constructs[name])
                    except DebateRunError as error:
                        place = f"{run.configuration.name}, seed {run.seed}"
                        made.failures.append(f"{place}: {error}")
                    else:
                        made.runs += 1
        return made

    async def _make(self, run: SweepRun, construct: Debater | None) -> None:
        """Make a run; DebateRunError where a construct does not answer, and no file is left."""
        entries: list[JsonObject] = []
        disposition = run.configuration.debaters
        debater = construct or ScriptedDebater(self.scenario, disposition, run.seed)
        # A fixed time: the run of a script must be the same whenever it is made.
        clock = counting_clock() if construct is None else utc_now
        speakers = {agent: debater for agent, _ in run.plan.participants}
        artefact = await DebateRun(run.plan, clock, entries.append).run(speakers)
        path = self.path(run)
        # The log first: an existing artefact must have its log.
        replace_durably(path.with_suffix(".log.jsonl"), b"".join(map(canonical_line, entries)))
        replace_durably(path, canonical_line(artefact))

    def debates(self) -> Iterator[tuple[str, Debate]]:
        """Yield every run that is there, with the name of its configuration."""
        registry = SchemaRegistry()
        for run in self.runs():
            debate = _read(self.path(run), registry)
            if debate is not None:
                yield run.configuration.name, debate

    def path(self, run: SweepRun) -> Path:
        """Return the path of a run's artefact."""
        return self.folder / "runs" / f"{run.plan.run_id}.json"


def _report(one: _Sweep, made: _Made, *, as_json: bool) -> None:
    rows = table(one.debates(), one.scenario, [each.name for each in one.plan.configurations])
    if as_json:
        print_document(
            {
                "debate_id": one.scenario.debate_id,
                "new_runs": made.runs,
                "failed_runs": [*made.failures],
                "cells": [*rows],
            }
        )
        return
    _print(rows)
    echo(f"{made.runs} new run(s) in {one.folder}", err=True)
    for failure in made.failures:
        echo(f"left out: {failure}", err=True)


def _claim_folder(folder: Path, content: JsonObject) -> None:
    """Make the folder this sweep's own. Raises SweepError where it is another's."""
    path = folder / PLAN
    if path.exists():
        if canonical_sha256(parse_object(path.read_bytes())) != canonical_sha256(content):
            raise SweepError(f"expected a folder of this sweep, got one of another: {folder}")
        return
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    replace_durably(path, canonical_line(content))


def _read(path: Path, registry: SchemaRegistry) -> Debate | None:
    try:
        return read_debate(path.read_bytes(), registry=registry).debate
    except (FileNotFoundError, ParseError, InvalidDebateError):
        return None  # missing or incomplete: it is made again


def _print(rows: list[JsonObject]) -> None:
    header = (
        "configuration",
        "runs",
        "attempts/turn",
        "gamma",
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
                _figure(row["gamma_mean"]),
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
