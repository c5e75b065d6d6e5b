"""PRODUCT_CARTOGRAPH_V1 for real: a registered program, asked over its stdin."""

import time
from pathlib import Path

from tests.theatre.runs import Finished, Stage, ticking_clock
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEMPLATE = parse_object((FIXTURES / "templates" / "product_cartograph_v1.json").read_bytes())


def run_cartograph(
    folder: Path, *, template: JsonObject = TEMPLATE, data: Path = FIXTURES
) -> Finished:
    """Run `template` with the shipped Cartograph; data begin at `data`."""
    registry = ConstructRegistry.load(FIXTURES / "constructs" / "constructs.toml")
    adapter = local_adapter_for(
        registry.find("cartograph"), clock=ticking_clock(), monotonic=time.monotonic
    )
    return Stage(folder, template, data=data).run(adapter)
