"""Constructs that know nothing, through the real engine: no criterion may pay for ignorance.

The rule is the same for every shipped template (contract/scoring.md).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import Finished, Stage, ticking_clock, with_changes
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    construct_version,
    local_adapter_for,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONSTRUCTS = FIXTURES / "constructs" / "constructs.toml"
FAKES = ("garbage", "empty", "constant", "constant-plausible", "copied-input")
EARNED = 0.1
"""A criterion above this is one that the honest construct earns (contract/scoring.md)."""

REGISTRY = """
[constructs.{construct_id}]
argv = ["{{python}}", "-B", "{{folder}}/{program}", "{mode}"]
folder = "{folder}"
files = ["*.py"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A shipped template with its construct, and the program that takes the construct's place.

    `changes` let it be asked on stdin, where the honest construct speaks HTTP.
    """

    construct_id: str
    fake: str
    episodes: int
    earned: tuple[str, ...]
    changes: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def template(self) -> JsonObject:
        path = FIXTURES / "templates" / f"product_{self.construct_id}_v1.json"
        return parse_object(path.read_bytes())

    def run(self, folder: Path, registry_file: Path) -> Finished:
        """Run the template with the program that the registry gives the construct's name to."""
        construct = ConstructRegistry.load(registry_file).find(self.construct_id)
        pin = f"/version_pins/constructs/{self.construct_id}"
        changes = {**self.changes, pin: construct_version(construct)}
        adapter = local_adapter_for(construct, clock=ticking_clock(), monotonic=time.monotonic)
        return Stage(folder, with_changes(self.template, changes), data=FIXTURES).run(adapter)


SHIPPED = {
    "cartograph": Shipped(
        construct_id="cartograph", fake="fake.py", episodes=240, earned=("hex_grid_accuracy",)
    ),
    "observer": Shipped(
        construct_id="observer",
        fake="observer_fake.py",
        episodes=163,
        earned=("canvas_enrichment_freshness", "signal_classification", "source_fidelity"),
        changes={
            "/product_theatre_config/adapter_type": "local",
            "/version_pins/adapter_version": "local@1",
        },
    ),
}


class Measured(NamedTuple):
    """A criterion's score and interval."""

    score: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def measured(finished: Finished) -> dict[str, Measured]:
    aggregate = finished.document("scores/aggregate.json")
    scores = cast("dict[str, float]", aggregate["scores"])
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    return {
        criterion: Measured(
            score,
            cast("float", intervals[criterion]["low"]),
            cast("float", intervals[criterion]["high"]),
        )
        for criterion, score in sorted(scores.items())
    }


class Honest(NamedTuple):
    """A shipped template and what its own construct scores."""

    shipped: Shipped
    scores: dict[str, Measured]


@pytest.fixture(scope="module", params=SHIPPED)
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Honest:
    shipped = SHIPPED[request.param]
    folder = tmp_path_factory.mktemp("honest")
    is_service = shipped.construct_id == "observer"
    finished = run_observer(folder) if is_service else shipped.run(folder, CONSTRUCTS)
    return Honest(shipped, measured(finished))


def test_the_honest_construct_earns_something_that_a_fake_could_lose(honest: Honest) -> None:
    earned = tuple(name for name, one in honest.scores.items() if one.score > EARNED)
    assert earned == honest.shipped.earned


@pytest.mark.parametrize("mode", FAKES)
def test_a_fake_loses_what_is_earned_and_lies_above_the_honest_interval_nowhere(
    honest: Honest, tmp_path: Path, mode: str
) -> None:
    shipped = honest.shipped
    registry = tmp_path / "constructs.toml"
    folder = FIXTURES / "constructs" / "fakes"
    registry.write_text(
        REGISTRY.format(
            construct_id=shipped.construct_id, program=shipped.fake, folder=folder, mode=mode
        ),
        encoding="utf-8",
    )
    finished = shipped.run(tmp_path / "run", registry)
    counts = cast("JsonObject", finished.document("scores/aggregate.json")["episode_counts"])
    # Every answer was read and scored: the fake fell by what it said, not by how it said it.
    assert (counts["scored"], counts["total"]) == (shipped.episodes, shipped.episodes)
    fake = cast("dict[str, float]", finished.document("scores/aggregate.json")["scores"])
    for criterion, real in honest.scores.items():
        assert fake[criterion] <= real.high
        if real.score > EARNED:
            assert fake[criterion] < real.score - real.half_width
