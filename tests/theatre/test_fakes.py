"""Constructs that know nothing but the form of one task: no criterion may pay for ignorance.

Those that know no task are the adversaries of tests/theatre/test_adversaries.py.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.theatre.easel_runs import CHAIN, let_demo_reviewers_score, run_easel
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
"""A criterion above this is one that the honest construct earns (docs/contract/scoring.md)."""

ENTRY = """
[constructs.{construct_id}]
argv = ["{{python}}", "-B", "{{folder}}/fakes/{program}", "{mode}"]
folder = "{folder}"
files = ["fakes/*.py", "easel/vocabulary.json"]
"""
LOCAL: Mapping[str, JsonValue] = {
    "/product_theatre_config/adapter_type": "local",
    "/version_pins/adapter_version": "local@1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A shipped template with its construct, and the program that takes the construct's place.

    In a chain it takes the place of all of `constructs`. `changes` let it be asked on stdin, where
    the honest constructs speak HTTP. Where people are asked, the stand-ins score the fake, too.
    """

    construct_id: str
    fake: str
    episodes: int
    earned: tuple[str, ...]
    constructs: tuple[str, ...]
    fakes: tuple[str, ...] = FAKES
    changes: Mapping[str, JsonValue] = field(default_factory=dict)
    is_rated: bool = False

    @property
    def template(self) -> JsonObject:
        path = FIXTURES / "templates" / f"product_{self.construct_id}_v1.json"
        return parse_object(path.read_bytes())

    def registry(self, folder: Path, mode: str) -> Path:
        """Write a registry in which the fake bears the names of the constructs."""
        folder_of_all = FIXTURES / "constructs"
        entries = [
            ENTRY.format(construct_id=name, program=self.fake, folder=folder_of_all, mode=mode)
            for name in self.constructs
        ]
        path = folder / "constructs.toml"
        path.write_text("".join(entries), encoding="utf-8")
        return path

    def run(self, folder: Path, registry_file: Path) -> Finished:
        """Run the template with the programs that the registry gives the constructs' names to."""
        found = ConstructRegistry.load(registry_file)
        programs = {name: found.find(name) for name in self.constructs}
        pins: JsonObject = {name: construct_version(one) for name, one in programs.items()}
        changes = {**self.changes, "/version_pins/constructs": pins}
        adapters = {
            name: local_adapter_for(one, clock=ticking_clock(), monotonic=time.monotonic)
            for name, one in programs.items()
        }
        stage = Stage(folder, with_changes(self.template, changes), data=FIXTURES)
        finished = stage.run(adapters)
        if not self.is_rated:
            return finished
        let_demo_reviewers_score(stage)
        return stage.run(adapters)


SHIPPED = {
    "cartograph": Shipped(
        construct_id="cartograph",
        fake="fake.py",
        episodes=240,
        earned=("hex_grid_accuracy",),
        constructs=("cartograph",),
    ),
    "easel": Shipped(
        construct_id="easel",
        fake="easel_fake.py",
        episodes=85,
        earned=("downstream_compliance", "tdr_propagation_fidelity", "vocabulary_adherence"),
        constructs=CHAIN,
        fakes=(*FAKES, "words-looked-up"),
        changes={
            **LOCAL,
            "/product_theatre_config/construct_endpoints": {
                name: {"adapter_type": "local", "endpoint": f"construct:{name}"}
                for name in CHAIN[1:]
            },
        },
        is_rated=True,
    ),
}
EVERY_FAKE = [(name, mode) for name, shipped in SHIPPED.items() for mode in shipped.fakes]


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


HonestRuns = Callable[[str], Honest]


@pytest.fixture(scope="module")
def honest_run(tmp_path_factory: pytest.TempPathFactory) -> HonestRuns:
    """Run the honest constructs of a shipped template, each template once."""
    found: dict[str, Honest] = {}

    def honest(name: str) -> Honest:
        if name not in found:
            folder, shipped = tmp_path_factory.mktemp(name), SHIPPED[name]
            finished = run_easel(folder) if name == "easel" else shipped.run(folder, CONSTRUCTS)
            found[name] = Honest(shipped, measured(finished))
        return found[name]

    return honest


@pytest.mark.parametrize("name", SHIPPED)
def test_the_honest_construct_earns_something_that_a_fake_could_lose(
    honest_run: HonestRuns, name: str
) -> None:
    honest = honest_run(name)
    earned = tuple(name for name, one in honest.scores.items() if one.score > EARNED)
    assert earned == honest.shipped.earned


@pytest.mark.parametrize(("name", "mode"), EVERY_FAKE)
def test_a_fake_loses_what_is_earned_and_lies_above_the_honest_interval_nowhere(
    honest_run: HonestRuns, tmp_path: Path, name: str, mode: str
) -> None:
    honest = honest_run(name)
    shipped = honest.shipped
    finished = shipped.run(tmp_path / "run", shipped.registry(tmp_path, mode))
    counts = cast("JsonObject", finished.document("scores/aggregate.json")["episode_counts"])
    # Every answer was read and scored: the fake fell by what it said, not by how it said it.
    assert (counts["scored"], counts["total"]) == (shipped.episodes, shipped.episodes)
    fake = cast("dict[str, float]", finished.document("scores/aggregate.json")["scores"])
    for criterion, real in honest.scores.items():
        assert fake[criterion] <= real.high
        if real.score > EARNED:
            assert fake[criterion] < real.score - real.half_width
