"""What README.md, docs/demo.md and docs/check.md show as output or as code, executed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demonstration import Demonstration

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DEMO = ROOT / "docs" / "demo.md"
STRANGER = ROOT / "docs" / "check.md"
LINES_OF_THE_README = 140

VARYING = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z"), "<time>"),
    (re.compile(r"^(── \d+/\d+  .*\S) +\d+ s$", re.MULTILINE), r"\1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{12}…"), "<hash>"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), "<date>"),
    (re.compile(r"\b\d+ KiB"), "<size>"),
    (re.compile(r"\((namespaces|landlock)\)$", re.MULTILINE), "<means>"),
]


def block(page: Path, label: str) -> str:
    found = re.search(
        rf"<!-- {re.escape(label)} -->\n```\w+\n(.*?)```", page.read_text("utf-8"), re.DOTALL
    )
    assert found is not None, f"{page.name} has no block {label}"
    return found[1]


def normalised(text: str) -> list[str]:
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text.strip().splitlines()


def matches(shown: list[str], printed: list[str]) -> bool:
    """A shown `…` stands for any number of printed lines; other lines are equal, in order."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES_OF_THE_README


def test_the_demo_prints_what_the_pages_show(demonstration: Demonstration) -> None:
    assert matches(normalised(block(README, "output: demo")), normalised(demonstration.shown))
    whole = normalised(block(DEMO, "output: demo --verbose"))
    assert matches(whole, normalised(demonstration.pages))


def test_a_page_that_shows_another_score_would_be_noticed(demonstration: Demonstration) -> None:
    shown = {
        ("1.000  0.940", "0.999  0.940"): (README, "output: demo", demonstration.shown),
        ("0.115 (0.067", "0.315 (0.067"): (DEMO, "output: demo --verbose", demonstration.pages),
    }
    for (score, other), (page, label, printed) in shown.items():
        honest = block(page, label)
        assert score in honest
        assert not matches(normalised(honest.replace(score, other)), normalised(printed))


@pytest.fixture
def bundle(demonstration: Demonstration) -> Path:
    return demonstration.folder / "bundles" / "cartograph"


def test_the_strangers_lines_accept_the_bundle_and_recompute_each_score(
    bundle: Path, tmp_path: Path
) -> None:
    script = tmp_path / "stranger.py"
    script.write_text(block(STRANGER, "executed: stranger"), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, script, bundle], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "detail_density_adherence 0 recomputed: 0.0 over 60",
        "hex_grid_accuracy 1 recomputed: 1.0 over 60",
        f"isometric_convention_compliance 0.016666667 recomputed: {2 / 120} over 120",
    ]


def test_the_strangers_lines_refuse_a_changed_score_line(bundle: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    shutil.copytree(bundle, forged)
    lines = forged / "scores" / "per_episode.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"missing"', b'"excluded"', 1))
    script = tmp_path / "stranger.py"
    script.write_text(block(STRANGER, "executed: stranger"), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, script, forged], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "AssertionError" in run.stderr


def test_sha256sum_accepts_the_bundle(bundle: Path) -> None:
    program = shutil.which("sha256sum")
    assert program is not None, "expected sha256sum (coreutils) on the machine"
    subprocess.run([program, "--check", "--quiet", "SHA256SUMS"], cwd=bundle, check=True)
