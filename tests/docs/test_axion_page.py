"""`docs/axion.md`: figures of the theatres as published, commands and agents as they are."""

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.sealed_evidence import sealed_document
from theatre.axion.cli import cli
from theatre.axion.harness.ladder import CLIMBERS, SIMULATORS
from theatre.axion.harness.runner import AGENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "axion.md").read_text(encoding="utf-8")
TEMPLATES = ROOT / "fixtures" / "templates"
PSEUDO = "product_axion_pseudo_v1"
PAIR = "product_axion_pair_v1"
PROBES = ("P3", "P4", "P5", "P6")


def scores(name: str) -> dict[str, float]:
    published = json.loads((TEMPLATES / f"{name}.expected.json").read_bytes())
    found: dict[str, float] = published["scores"]
    return found


def test_the_figures_of_both_theatres_are_the_published_and_the_sealed_ones() -> None:
    """What the honest agent gets is the same under every coin; the other's bundle is shipped."""
    rows = re.findall(r"^\| `(\w+)` \| (\d\.\d{3}) \| (\d\.\d{3}) \|$", PAGE, re.MULTILINE)
    honest, sealed = scores("product_axion_v1"), sealed_document(PSEUDO, "certificate.json")
    assert set(honest.values()) == {1}
    assert {name: (one, other) for name, one, other in rows} == {
        name: (f"{value:.3f}", f"{sealed['scores'][name]:.3f}") for name, value in honest.items()
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


def test_the_figures_of_the_pair_are_the_sealed_ones() -> None:
    aggregate = sealed_document(PAIR, "scores/aggregate.json")
    rows = PAGE.partition("<!-- pair -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    found = aggregate["computed"]["separate_the_pair"]
    assert rows == [pair_row(name, found["verdicts"][name]) for name in ("all", *PROBES)]
    assert f"AUROC is\n{found['auroc']:g}." in PAGE
    assert aggregate["scores"] == {"honest_passes": 1, "pseudo_is_caught": 1}


def pair_row(name: str, found: dict[str, Any]) -> str:
    apart, odd = found["risk_difference"], found["mcnemar"]
    return (
        f"| {name} | {found['first']['value']:.3f} | {found['second']['value']:.3f} | "
        f"{apart['value']:.3f} ({apart['low']:.3f} … {apart['high']:.3f}) | "
        f"{odd['only_first']} · {odd['only_second']} | {odd['p_value']:.1e} |"
    )
