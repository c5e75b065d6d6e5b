"""Constructs that know nothing, through the real engine: no criterion may pay for ignorance."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.theatre.runs import Finished, Stage, ticking_clock, with_changes
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    construct_version,
    local_adapter_for,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEMPLATE = parse_object((FIXTURES / "templates" / "product_cartograph_v1.json").read_bytes())
FAKES = ("garbage", "empty", "constant", "constant-plausible", "copied-input")
PIN = "/version_pins/constructs/cartograph"
EARNED = 0.1
"""A criterion above this is one that the honest construct earns (contract/scoring.md)."""

REGISTRY = """
[constructs.cartograph]
argv = ["{{python}}", "{{folder}}/fake.py", "{mode}"]
folder = "{folder}"
files = ["fake.py"]
"""


def run(folder: Path, registry_file: Path, template: JsonObject) -> Finished:
    """Run the Cartograph's template with the construct that the registry gives its name to."""
    construct = ConstructRegistry.load(registry_file).find("cartograph")
    pinned = with_changes(template, {PIN: construct_version(construct)})
    adapter = local_adapter_for(construct, clock=ticking_clock(), monotonic=time.monotonic)
    return Stage(folder, pinned, data=FIXTURES).run(adapter)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    registry = FIXTURES / "constructs" / "constructs.toml"
    return run(tmp_path_factory.mktemp("honest"), registry, TEMPLATE)


class Measured(NamedTuple):
    """A criterion's score and interval."""

    score: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def measured(aggregate: JsonObject) -> dict[str, Measured]:
    scores = cast("dict[str, float]", aggregate["scores"])
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    return {
        criterion: Measured(
            score,
            cast("float", intervals[criterion]["low"]),
            cast("float", intervals[criterion]["high"]),
        )
        for criterion, score in scores.items()
    }


def test_the_honest_construct_earns_something_that_a_fake_could_lose(honest: Finished) -> None:
    scores = measured(honest.document("scores/aggregate.json"))
    assert [name for name, one in scores.items() if one.score > EARNED] == ["hex_grid_accuracy"]


@pytest.mark.parametrize("mode", FAKES)
def test_a_fake_loses_what_is_earned_and_lies_above_the_honest_interval_nowhere(
    honest: Finished, tmp_path: Path, mode: str
) -> None:
    registry = tmp_path / "constructs.toml"
    folder = FIXTURES / "constructs" / "fakes"
    registry.write_text(REGISTRY.format(mode=mode, folder=folder), encoding="utf-8")
    finished = run(tmp_path / "run", registry, TEMPLATE)
    counts = cast("JsonObject", finished.document("scores/aggregate.json")["episode_counts"])
    # Every answer was read and scored: the fake fell by what it said, not by how it said it.
    assert (counts["scored"], counts["total"]) == (240, 240)
    fake = measured(finished.document("scores/aggregate.json"))
    for criterion, real in measured(honest.document("scores/aggregate.json")).items():
        assert fake[criterion].score <= real.high
        if real.score > EARNED:
            assert fake[criterion].score < real.score - real.half_width
