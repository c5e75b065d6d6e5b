"""The shipped axion theatres for real: agents as registered programs, asked over their stdin."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.theatre.runs import Finished, Stage, ticking_clock
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import RunContext
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for
from theatre.scorers import load_episode_runners

FIXTURES = Path(__file__).parents[3] / "fixtures"
NAMES = {
    "honest": "product_axion_v1",
    "pseudo": "product_axion_pseudo_v1",
    "pair": "product_axion_pair_v1",
}


def template_of(theatre: str) -> JsonObject:
    """Return a shipped template, by its name in `NAMES`."""
    return parse_object((FIXTURES / "templates" / f"{NAMES[theatre]}.json").read_bytes())


def published_of(theatre: str) -> dict[str, Any]:
    """Return what is published of a shipped theatre."""
    return parse_object((FIXTURES / "templates" / f"{NAMES[theatre]}.expected.json").read_bytes())


def shipped_construct(agent: str) -> OracleAdapter:
    """Return the registered program of an agent, behind the local adapter."""
    registry = ConstructRegistry.load(FIXTURES / "constructs" / "constructs.toml")
    return local_adapter_for(
        registry.find(f"axion.{agent}"), clock=ticking_clock(), monotonic=time.monotonic
    )


def with_installed_runners(around: RunContext) -> RunContext:
    """Return the surroundings with what the command line has."""
    return replace(around, runners=load_episode_runners())


def run_axion(
    folder: Path,
    theatre: str,
    *,
    template: JsonObject | None = None,
    data: Path = FIXTURES,
    construct: Callable[[], OracleAdapter] | None = None,
) -> Finished:
    """Run a theatre of `NAMES`; data begin at `data`, `construct` stands in for every agent."""
    agents = ("honest", "pseudo") if theatre == "pair" else (theatre,)
    adapters = {
        f"axion.{agent}": shipped_construct(agent) if construct is None else construct()
        for agent in agents
    }
    stage = Stage(folder, template or template_of(theatre), data=data)
    return stage.run(adapters, around=with_installed_runners)
