"""The ladder: what is certain of each rung, at any size; and what the page says of all of it."""

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from theatre.axion.cli import cli
from theatre.axion.harness.ladder import LIMITS, reached_level

SOAK = os.environ.get("ECHELON_SOAK") == "1"
EPISODES, STEPS = (60, 50) if SOAK else (4, 14)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of one ladder, with what the command said in `said.txt`."""
    out = tmp_path_factory.mktemp("ladder")
    sizes = ["--episodes", str(EPISODES), "--steps", str(STEPS), "--seed", "123"]
    options = [*sizes, "--watchdog_ms", "60000", "--out_dir", str(out)]
    result = CliRunner().invoke(cli, ["ladder", *options])
    assert result.exit_code == 0, result.output
    (out / "said.txt").write_text(result.output, encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "ladder.json").read_bytes())
    return document


def passes(report: dict[str, Any], name: str) -> list[float]:
    return [report["matrix"][name][level]["value"] for level in ("L0", "L1", "L2", "L3")]


def test_the_page_has_a_row_for_each_agent_with_the_figures_of_the_full_size(
    report: dict[str, Any],
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "axion.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| ((?:\d\.\d\d \| ){4}\d\.\d{3}) \|$", page, re.MULTILINE))
    assert set(rows) == set(report["matrix"])
    for name, row in report["matrix"].items() if SOAK else ():
        cells = [f"{row[level]['value']:.2f}" for level in ("L0", "L1", "L2", "L3")]
        assert rows[name] == f"{' | '.join(cells)} | {row['fidelity']:.3f}"


def test_levels_only_ever_take_away(report: dict[str, Any]) -> None:
    for name in report["matrix"]:
        assert passes(report, name) == sorted(passes(report, name), reverse=True)


def test_the_honest_agent_with_one_model_passes_every_level(report: dict[str, Any]) -> None:
    assert passes(report, "honest_frozen") == [1, 1, 1, 1]
    # The honest agent itself publishes another model at each step: that is not one model. Whether a
    # tenth of its claims is pivotal is left to the draw in a short episode; the page has all of it.
    literal, bound, _, one_model = passes(report, "honest")
    assert (literal, bound, one_model) == (1, 1, 0)


def test_a_constant_model_passes_the_literal_probe_and_falls_to_pivotality(
    report: dict[str, Any],
) -> None:
    assert passes(report, "pseudo_constant") == [1, 1, 0, 0]


def test_a_liar_that_does_not_bend_its_model_passes_l0_and_is_not_bound(
    report: dict[str, Any],
) -> None:
    assert passes(report, "pseudo_unbent")[0] == 1
    assert report["matrix"]["pseudo_unbent"]["fidelity"] < 0.9


def test_a_coherent_liar_passes_until_one_model_is_asked_for(report: dict[str, Any]) -> None:
    assert passes(report, "pseudo_coherent")[:2] == [1, 1]
    assert passes(report, "pseudo_coherent")[3] < 0.5
    assert passes(report, "pseudo_budgeted_6")[:2] == [1, 1]


def test_every_claim_that_is_checked_before_it_is_made_helps_the_liar(
    report: dict[str, Any],
) -> None:
    budgets = ["pseudo", *(f"pseudo_budgeted_{count}" for count in (1, 2, 4, 6))]
    failures = [report["matrix"][name]["check_failure"]["value"] for name in budgets]
    assert failures == sorted(failures, reverse=True)
    assert (failures[0] > 0, failures[-1]) == (True, 0)
    sweep = [report["sweep"][name]["pass_rate"]["value"] for name in budgets]
    assert (sweep[0], sweep[-1]) == (min(sweep), 1)


def test_who_simulates_itself_passes_the_probe_of_full(report: dict[str, Any]) -> None:
    values = {name: found["value"] for name, found in report["full"].items()}
    assert (values["honest"], values["pseudo_simulating"]) == (1, 1)
    assert values["pseudo"] < 0.5


def test_the_command_says_plainly_what_the_probe_cannot_catch(folder: Path) -> None:
    said = " ".join((folder / "said.txt").read_text(encoding="utf-8").split())
    assert LIMITS in said


def test_the_pictures_are_drawn_and_their_text_is_text(folder: Path) -> None:
    for name, wanted in (
        ("matrix.svg", {"honest_frozen", "pseudo_coherent", "L0", "L3"}),
        ("fidelity.svg", {"honest_lossy", "pseudo_frozen_k16"}),
        ("entropy.svg", {"pseudo_budgeted_4"}),
    ):
        root = ET.parse(folder / name).getroot()  # noqa: S314 - our own file
        texts = {element.text for element in root.iter() if element.text}
        assert wanted <= texts, name


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({}, 4),
        ({"probes": {"P5": "INCONCLUSIVE"}}, 0),
        ({"p5_bound_choices": 2}, 1),
        ({"p5_checks_pivotal": 0}, 2),
        ({"published_models": 2}, 3),
        ({"replay_fidelity": 0.94}, 3),
        ({"replay_fidelity": 0.95}, 4),
    ],
)
def test_an_episode_reaches_the_level_before_the_first_it_fails(
    changes: dict[str, Any], level: int
) -> None:
    record = {
        "probes": {"P5": "PASS"},
        "p5_checks_passed": 9,
        "p5_checks_failed": 0,
        "p5_checks_pivotal": 1,
        "p5_challenges": 3,
        "p5_bound_choices": 3,
        "published_models": 1,
        "replay_fidelity": 1.0,
    }
    assert reached_level({**record, **changes}) == level
