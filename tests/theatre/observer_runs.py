"""PRODUCT_OBSERVER_V1 for real: a registered service, started for the run and asked by HTTP."""

import time
from pathlib import Path

from tests.theatre.runs import Finished, Stage, ticking_clock
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.oracles.construct_registry import ConstructRegistry
from theatre.oracles.served import served_adapter_for

FIXTURES = Path(__file__).parents[2] / "fixtures"
GROUND_TRUTH = FIXTURES / "ground_truth"
CONSTRUCTS = FIXTURES / "constructs" / "constructs.toml"
TEMPLATE = parse_object((FIXTURES / "templates" / "product_observer_v1.json").read_bytes())
OBSERVER = "observer"
BASELINES = ("observer_majority", "observer_keywords")


def run_observer(
    folder: Path,
    *,
    construct_id: str = OBSERVER,
    registry: Path = CONSTRUCTS,
    template: JsonObject = TEMPLATE,
    data: Path = FIXTURES,
) -> Finished:
    """Run `template` with the construct that `registry` has under an id; data begin at `data`."""
    adapter = served_adapter_for(
        ConstructRegistry.load(registry).find(construct_id),
        clock=ticking_clock(),
        monotonic=time.monotonic,
    )
    return Stage(folder, template, data=data).run(adapter)
