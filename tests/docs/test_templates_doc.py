"""The example of `docs/templates.md` is valid and runs; the contract has every rule of the code."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.template_validator.validator import RULES
from theatre.engine.templates import product_template
from theatre.scorers import load_scorers

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "templates.md").read_text(encoding="utf-8")
CONTRACT = (DOCS / "contract" / "template.md").read_text(encoding="utf-8")

EXAMPLE = {
    "episodes.jsonl": "jsonl",
    "thermometer.py": "python",
    "constructs.toml": "toml",
    "template.json": "json",
}
"""File of the worked example → the language of its only block."""

RUN = "from theatre.cli import main; main()"


def code_block(language: str) -> str:
    """Return the only block of `language` on the page."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def sha256(text: str) -> str:
    """Return what `sha256sum` prints for `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def template() -> JsonObject:
    return parse_object(code_block("json").encode())


@pytest.fixture
def example_folder(tmp_path: Path) -> Path:
    """Return a folder with the four files of the example."""
    for name, language in EXAMPLE.items():
        (tmp_path / name).write_text(code_block(language), encoding="utf-8")
    return tmp_path


def test_the_example_is_valid_without_a_warning(template: JsonObject) -> None:
    report = TemplateValidator(load_scorers()).validate(template)
    assert report == ValidationReport(errors=(), warnings=())


def test_the_two_hashes_of_the_example_are_those_of_its_files(template: JsonObject) -> None:
    argv = tomllib.loads(code_block("toml"))["constructs"]["thermometer"]["argv"]
    bound = {"argv": argv, "files": {"thermometer.py": sha256(code_block("python"))}}
    version = sha256(json.dumps(bound, sort_keys=True, separators=(",", ":")))
    view = product_template(template)
    assert view.dataset_hashes == {"temperatures": sha256(code_block("jsonl"))}
    assert view.version_pins.constructs == {"thermometer": version}


def test_the_example_runs_to_the_certificate_that_the_page_describes(example_folder: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", RUN, "theatre", "run", "template.json", "--json"],
        cwd=example_folder,
        env=os.environ | {"ECHELON_HOME": str(example_folder / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert (report["outcome"], report["verification_tier"]) == ("certified", "UNVERIFIED")
    assert report["scores"] == {"conversion_accuracy": 1}
    assert [cap for cap in report["caps"] if f"`{cap}`" not in PAGE] == []
    assert report["caps"] == ["replays-below-50", "criterion-n-below-30:conversion_accuracy"]
    certificate = json.loads((Path(report["bundle_path"]) / "certificate.json").read_bytes())
    interval = certificate["score_intervals"]["conversion_accuracy"]
    assert f"a Wilson interval from {interval['low']:.3f} to {interval['high']}" in PAGE


def test_the_table_of_rules_names_every_rule_and_says_which_ones_only_warn() -> None:
    table = CONTRACT[CONTRACT.index("| rule | what it wants |") :].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.MULTILINE)
    severities = [
        (name, "warning" if text.startswith("warning") else "error") for name, text in rows
    ]
    assert severities == [(rule.name, rule.severity) for rule in RULES]
