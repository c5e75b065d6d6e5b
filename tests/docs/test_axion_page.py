"""`docs/axion.md`: figures of the theatres as published, commands and agents as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner

from theatre.axion.cli import cli
from theatre.axion.harness.ladder import CLIMBERS, SIMULATORS
from theatre.axion.harness.roster import AGENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "axion.md").read_text(encoding="utf-8")
TEMPLATES = ROOT / "fixtures" / "templates"


def scores(name: str) -> dict[str, float]:
    published = json.loads((TEMPLATES / f"{name}.expected.json").read_bytes())
    found: dict[str, float] = published["scores"]
    return found


def test_the_figures_of_both_theatres_are_the_published_ones() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d\.\d{3}) \| (\d\.\d{3}) \|$", PAGE, re.MULTILINE)
    honest, pseudo = scores("product_axion_v1"), scores("product_axion_pseudo_v1")
    assert {name: (one, other) for name, one, other in rows} == {
        name: (f"{value:.3f}", f"{pseudo[name]:.3f}") for name, value in honest.items()
    }


def test_every_agent_is_on_the_page() -> None:
    named = set(re.findall(r"`((?:honest|pseudo)\w*)`", PAGE)) | {"pseudo_frozen_k16"}
    families = {re.sub(r"_\d$", "_N", name) for name in AGENTS}
    assert families <= named
    assert {*CLIMBERS, *SIMULATORS} == set(AGENTS)


def test_every_command_on_the_page_is_one_that_there_is() -> None:
    for name, rest in re.findall(r"^toy-pseudo-axion (\w+) (.*)$", PAGE, re.MULTILINE):
        said = CliRunner().invoke(cli, [name, "--help"])
        assert said.exit_code == 0
        assert [option for option in re.findall(r"--\w+", rest) if option not in said.output] == []
