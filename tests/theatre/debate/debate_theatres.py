"""The shipped debate theatres for real: constructs as registered programs, asked over stdin."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.theatre.forged_bundle import check
from tests.theatre.runs import Finished, Stage, ticking_clock
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import RunContext
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for
from theatre.scorers import load_episode_runners

FIXTURES = Path(__file__).parents[3] / "fixtures"
TEMPLATES = FIXTURES / "templates"
GOOD = ("product_debate_auditor_v1", "product_debate_team_v1", "product_debate_control_v1")
BAD: Mapping[str, str] = {
    "product_debate_auditor_formal_v1": GOOD[0],
    "product_debate_auditor_alarm_v1": GOOD[0],
    "product_debate_herd_v1": GOOD[1],
    "product_debate_pleaser_v1": GOOD[2],
}
"""Each bad construct's template, and that of the good one beside it."""


def template_of(name: str) -> JsonObject:
    """Return a shipped template."""
    return parse_object((TEMPLATES / f"{name}.json").read_bytes())


def published(name: str) -> JsonObject:
    """Return what is published of a theatre."""
    return parse_object((TEMPLATES / f"{name}.expected.json").read_bytes())


def run_debates(
    folder: Path,
    template: JsonObject,
    *,
    data: Path = FIXTURES,
    construct: OracleAdapter | None = None,
) -> Finished:
    """Run a theatre with the program that its template names, or `construct` in its place."""
    config = cast("dict[str, str]", template["product_theatre_config"])
    name = config["construct_under_test"]
    stage = Stage(folder, template, data=data)
    return stage.run({name: construct or _program(name)}, around=_with_runners)


def checked_debates(bundle: Path) -> CheckReport:
    """Return what the independent check finds, with all that is installed."""
    return check(bundle, runners=load_episode_runners())


def failures(bundle: Path) -> set[str]:
    """Return the names of the checks that fail."""
    return {line.id for line in checked_debates(bundle).checks if line.status.value == "fail"}


def _program(name: str) -> OracleAdapter:
    registry = ConstructRegistry.load(FIXTURES / "constructs" / "constructs.toml")
    return local_adapter_for(registry.find(name), clock=ticking_clock(), monotonic=time.monotonic)


def _with_runners(around: RunContext) -> RunContext:
    return replace(around, runners=load_episode_runners())
