"""A defect of the engine's arithmetic is found: by the very build that has it, and without it.

Each is built into the engine's source. What the build then publishes, or would have published, is
refused by its own check and by `verify_bundle.py`. `make test` builds one of a score and one of a
tier, `make soak-mutants` the others.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

NONE = "no defect"
SCORING, TIER = "theatre.engine.scoring", "theatre.engine.tier_assigner"


@dataclass(frozen=True, slots=True)
class Defect:
    """What stands in the engine instead of what, and which check has to name it."""

    module: str
    old: str
    new: str
    named: str


FIRST = {
    "failures vanish from the mean": Defect(
        f"{SCORING}.tallies",
        'self.mean_over("scored", "missing")',
        'self.mean_over("scored")',
        "aggregate",
    ),
    "PROVEN without telemetry": Defect(
        f"{TIER}.assigner", 'yield "telemetry-missing", "0"\n', "pass\n", "tier"
    ),
}
FURTHER = {
    "another holdout": Defect(
        f"{SCORING}.holdout", "int(digest[:16], 16)", "int(digest[16:32], 16)", "scores"
    ),
    "a run that ends at half of its failures": Defect(
        f"{SCORING}.arithmetic", "threshold * total\n", "threshold * total / 4\n", "invocations"
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
        f"{SCORING}.arithmetic", "round(value * NANO)", "int(value * NANO)", "aggregate"
    ),
    "another level of Wilson's interval": Defect(
        f"{SCORING}.arithmetic", "\nZ = 1.959963984540054", "\nZ = 1.6448536269514722", "aggregate"
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
        f"{SCORING}.aggregate", "low + Fraction(gaps, applicable)", "low", "aggregate"
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
}
Refused = dict[str, list[str]]
"""What each of the two refuses of a bundle."""
NOTHING: Refused = {"check": [], "verify_bundle": []}


def refused(folder: Path, defects: Mapping[str, Defect]) -> dict[str, Refused]:
    """Build each defect, and with many of them the engine as it is; return what is refused."""
    builds = {name: (one.module, one.old, one.new) for name, one in defects.items()}
    if defects is FURTHER:
        builds[NONE] = ("", "", "")
    done = subprocess.run(
        [sys.executable, "-m", "tests.theatre.broken_engine", str(folder)],
        input=json.dumps(builds),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_bytes()) for path in folder.glob("*.json")}


@pytest.mark.parametrize("defects", [FIRST, FURTHER], ids=["first", "further"])
def test_a_build_with_a_defect_is_refused_by_both(
    tmp_path: Path, defects: dict[str, Defect]
) -> None:
    found = refused(tmp_path, defects)
    assert found.pop(NONE, NOTHING) == NOTHING
    assert found.keys() == defects.keys()
    unseen = {
        (name, way): ids
        for name, said in found.items()
        for way, ids in said.items()
        if defects[name].named not in ids
    }
    assert unseen == {}
