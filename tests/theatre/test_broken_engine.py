"""A defect of the engine's arithmetic is found: by the very build that has it, and without it.

Each is built into the engine's source. What the build then publishes, or would have published, is
refused by its own check and by `verify_bundle.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

pytestmark = pytest.mark.untraced

NONE = "no defect"
SCORING, TIER = "theatre.engine.scoring", "theatre.engine.tier_assigner"


@dataclass(frozen=True, slots=True)
class Defect:
    """What stands in the engine instead of what, and which check has to name it."""

    module: str
    old: str
    new: str
    named: str


DEFECTS = {
    "failures vanish from the mean": Defect(
        f"{SCORING}.tallies",
        'self.mean_over("scored", "missing")',
        'self.mean_over("scored")',
        "aggregate",
    ),
    "every weight counts alike": Defect(
        f"{SCORING}.arithmetic",
        "tuple(weight / total for weight in exact_weights)",
        "tuple(Fraction(1, len(exact_weights)) for _ in exact_weights)",
        "aggregate",
    ),
    "a mean over one episode too many": Defect(
        f"{SCORING}.tallies",
        "Fraction(self.nano_sum, units * NANO) if units",
        "Fraction(self.nano_sum, (units + 1) * NANO) if units",
        "aggregate",
    ),
    "cut instead of rounded": Defect(
        f"{SCORING}.arithmetic",
        "round(value * NANO)",
        "int(value * NANO)",
        "aggregate",
    ),
    "another level of Wilson's interval": Defect(
        f"{SCORING}.arithmetic", "_Z = 1.959963984540054", "_Z = 1.6448536269514722", "aggregate"
    ),
    "refusals are no zeros": Defect(
        f"{SCORING}.aggregate",
        'means("scored", "missing", "excluded", human',
        'means("scored", "missing", human',
        "aggregate",
    ),
    "coverage of what was answered": Defect(
        f"{SCORING}.aggregate",
        "ratio(scored, run - refused)",
        'ratio(scored, scored + counts["unscored"])',
        "aggregate",
    ),
    "the worst case has no failures": Defect(
        f"{SCORING}.aggregate",
        "low + Fraction(gaps, applicable)",
        "low",
        "aggregate",
    ),
    "another holdout": Defect(
        f"{SCORING}.holdout",
        "int(digest[:16], 16)",
        "int(digest[16:32], 16)",
        "scores",
    ),
    "Brier's score of the probability alone": Defect(
        f"{SCORING}.calibration",
        "b.squares - 2 * NANO * b.total_right + NANO * NANO * b.right",
        "b.squares",
        "aggregate",
    ),
    "a composite of a line without its zeros": Defect(
        f"{SCORING}.aggregate",
        "if (nano := shown[criterion]) is not None\n",
        "if (nano := shown[criterion])\n",
        "scores",
    ),
    "a run that ends at half of its failures": Defect(
        f"{SCORING}.arithmetic",
        "threshold * total\n",
        "threshold * total / 4\n",
        "invocations",
    ),
    "BACKTESTED from 90 a criterion": Defect(
        f"{TIER}.facts", "MIN_CRITERION_N = 30", "MIN_CRITERION_N = 90", "tier"
    ),
    "no failure too many": Defect(
        f"{TIER}.facts",
        "MAX_FAILURE_RATE = Fraction(1, 5)",
        "MAX_FAILURE_RATE = Fraction(0)",
        "tier",
    ),
    "BACKTESTED for ten years": Defect(
        f"{TIER}.facts",
        "BACKTESTED_LIFETIME = timedelta(days=90)",
        "BACKTESTED_LIFETIME = timedelta(days=3650)",
        "tier",
    ),
    "PROVEN without telemetry": Defect(
        f"{TIER}.assigner", 'yield "telemetry-missing", "0"\n', "pass\n", "tier"
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """What is refused of the bundle of each build, and of the one without a defect."""
    folder = tmp_path_factory.mktemp("builds")
    builds = {name: (one.module, one.old, one.new) for name, one in DEFECTS.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.theatre.broken_engine", str(folder)],
        input=json.dumps({NONE: ("", "", ""), **builds}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_bytes()) for path in folder.glob("*.json")}


def test_the_build_without_a_defect_passes(refused: dict[str, dict[str, list[str]]]) -> None:
    assert refused[NONE] == {"check": [], "verify_bundle": []}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_build_with_a_defect_is_refused_by_both(
    refused: dict[str, dict[str, list[str]]], name: str
) -> None:
    named = DEFECTS[name].named
    assert named in refused[name]["check"]
    assert named in refused[name]["verify_bundle"]
