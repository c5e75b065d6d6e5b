"""The shipped agents are programs of their own; they answer as the package's agents do."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.axion.answering import answer
from theatre.axion.common.hashing import derived_secret
from theatre.axion.env.gridworld import successor
from theatre.axion.harness.scenarios import SCENARIOS, scenario
from theatre.axion.interfaces.mci_latent import MCI_LATENT

FOLDER = Path(__file__).parents[3] / "fixtures" / "constructs" / "axion"
MODULES = ("honest", "model", "proposing", "pseudo", "world")
STEPS = 40


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The two programs as modules, which are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield {name: importlib.import_module(name) for name in ("honest", "pseudo")}
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("episode", range(len(SCENARIOS)))
@pytest.mark.parametrize("name", ["honest", "pseudo"])
def test_it_answers_as_the_agent_of_the_package(
    programs: dict[str, Any], name: str, episode: int
) -> None:
    seed = derived_secret("shipped", episode, key=b"agents")
    state = scenario(SCENARIOS[episode], seed)
    for step in range(STEPS):
        asked: dict[str, Any] = {
            "agent_seed": seed.hex(),
            "interface": MCI_LATENT.as_document(),
            "env": state.as_document(),
            "ask": "propose",
            "offers": {
                "snapshot_rebate": 5 if step % 3 else 0,
                "raw_energy_cost": 1 if step % 4 else 0,
            },
        }
        proposed = answer(name, asked)
        assert programs[name].act(asked) == proposed
        own = proposed["proposal"]["payload"]["plan"]["steps"][0]
        presented = {**asked, "ask": "present", "own": own}
        assert programs[name].act(presented) == answer(name, presented)
        state = successor(state, own)
