"""The plug-in scorer of `docs/scorers.md`, installed as its text says and used."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import theatre

CHECKOUT = Path(__file__).parents[3]

SCORE_CASES = """
import json
from theatre.engine.models import ScoringCase
from theatre.scorers import load_scorers

scorer = load_scorers()["reciprocal_rank"]
answers = [["b", {"q": 1.0}], [{"q": 1}], ["b", "c"], [], "b", None]
cases = [
    ScoringCase(input_data={}, expected={"q": 1}, answer=answer, params={}, hops={})
    for answer in answers
]
print(json.dumps([scorer.pin, [scorer.score(case) for case in cases]]))
"""


def code_block(language: str) -> str:
    """Return the only block of `language` in the document."""
    text = (CHECKOUT / "docs" / "scorers.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(block)


@pytest.fixture
def site_folder(tmp_path: Path) -> Path:
    """Return a folder that holds the example as an installed distribution."""
    (tmp_path / "reciprocal_rank.py").write_text(code_block("python"), encoding="utf-8")
    dist_info = tmp_path / "reciprocal_rank-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: reciprocal-rank\nVersion: 1.0\n"
    )
    groups = tomllib.loads(code_block("toml"))["project"]["entry-points"]
    lines = [
        line
        for group, entries in groups.items()
        for line in [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    ]
    (dist_info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_documented_plug_in_is_found_and_scores(site_folder: Path) -> None:
    package_root = Path(str(theatre.__file__)).parents[1]
    paths = [str(site_folder), str(package_root)]
    finished = subprocess.run(
        [sys.executable, "-c", SCORE_CASES],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.stderr == ""
    assert json.loads(finished.stdout) == ["reciprocal_rank@1", [0.5, 1.0, 0.0, 0.0, 0.0, 0.0]]


def test_the_documented_plug_in_takes_about_twenty_lines() -> None:
    lines = [line for line in code_block("python").splitlines() if line.strip()]
    assert 15 <= len(lines) <= 25
