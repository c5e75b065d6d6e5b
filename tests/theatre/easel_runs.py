"""PRODUCT_EASEL_V1 for real: three registered services, and two stand-ins for the people."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from tests.theatre.rated_runs import store_of
from tests.theatre.runs import Finished, RunOptions, Stage, ticking_clock
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import HumanReview, RatingItem, RunContext, rating_items
from theatre.oracles.construct_registry import ConstructRegistry
from theatre.oracles.served import ServedOracleAdapter, served_adapter_for

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONSTRUCTS = FIXTURES / "constructs" / "constructs.toml"
TEMPLATE = parse_object((FIXTURES / "templates" / "product_easel_v1.json").read_bytes())
CHAIN = ("easel", "artisan", "mint")
RUBRIC = "judge_taste"
EPISODES = 85


def easel_adapters(registry: Path = CONSTRUCTS) -> dict[str, ServedOracleAdapter]:
    """Return the way to each of the three that `registry` has; nothing is started yet."""
    found = ConstructRegistry.load(registry)
    return {
        name: served_adapter_for(found.find(name), clock=ticking_clock(), monotonic=time.monotonic)
        for name in CHAIN
    }


def easel_stage(folder: Path, *, template: JsonObject = TEMPLATE, data: Path = FIXTURES) -> Stage:
    """Commit the theatre in a folder of its own; data begin at `data`."""
    return Stage(folder, template, data=data)


def items_of(stage: Stage) -> tuple[RatingItem, ...]:
    """Return what people are shown of the theatre that waits for them."""

    async def scene() -> tuple[RatingItem, ...]:
        with store_of(stage).hold(stage.theatre_id) as held:
            desk = await HumanReview.of(held.theatre, held.journal, stage.clock)
            return await rating_items(held.journal, desk.rubric)

    return asyncio.run(scene())


def let_demo_reviewers_score(stage: Stage) -> None:
    """Let both stand-ins score every item."""
    items = items_of(stage)

    async def scene() -> None:
        with store_of(stage).hold(stage.theatre_id) as held:
            desk = await HumanReview.of(held.theatre, held.journal, stage.clock)
            for name in REVIEWERS:
                desk = await desk.submit(name, demo_scores(name, items))

    asyncio.run(scene())


def run_easel(
    folder: Path,
    *,
    template: JsonObject = TEMPLATE,
    data: Path = FIXTURES,
    adapters: Mapping[str, OracleAdapter] | None = None,
    **options: Unpack[RunOptions],
) -> Finished:
    """Run the theatre to its rubric, let the stand-ins score, and run it to its end."""
    stage = easel_stage(folder, template=template, data=data)
    called = adapters or easel_adapters()
    stage.run(called, **options)
    let_demo_reviewers_score(stage)
    return stage.run(called)


def with_authors(authors: Mapping[str, str | None]) -> RunOptions:
    """Return options for a run in which these constructs have these authors."""

    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, authors=authors)

    return {"around": around}
