"""M4: honest agents pass, the pseudo agent does not, and each probe says what it adds.

Seeds were fixed before anything was run: 123 is the one of the required command line, the others
are the first 32-bit numbers of the SHA-256 of `pseudo-axion-mci.md`. `make soak` runs the 100
required episodes for each of them; `make test` runs fewer. A threshold is missed where the
Wilson interval excludes it.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.theatre.axion.suites import ran, suite, summary
from theatre.axion.common.hashing import Document
from theatre.axion.env.metrics_oracle import env_entropy
from theatre.axion.harness.runner import usual_clutter
from theatre.axion.interfaces.base import Mode

SOAK = os.environ.get("ECHELON_SOAK") == "1"
SPEC_SHA256 = "efe3ab2307c908c858f438c73bb2e54604a241e9c978a51c4303c7c0d52d4181"
FIXED_SEED = 123
DERIVED_SEEDS = [int(SPEC_SHA256[place : place + 8], 16) for place in (0, 8, 16)]


PAGE = (Path(__file__).parents[3] / "docs" / "axion.md").read_text(encoding="utf-8")


def row_of(seed: int, mode: str, pseudo: Document) -> str:
    """Return the row that the page must have for a run of the full size."""
    failed = [pseudo["probes"][probe]["failed"] for probe in ("P5", "P3", "P4", "P6")]
    passed = pseudo["pass_rate"]["count"]
    readings = ("p5_challenge_failure", "p5_check_failure", "claims_failure", "worlds_failure")
    shares = [pseudo[reading]["value"] for reading in readings]
    cells = " | ".join("-" if share is None else f"{share:.2f}" for share in shares)
    return (
        f"| {seed} | `{mode}` | 100 of 100 | {passed} of 100 | {failed[0]} | {cells} | "
        f"{failed[1]} · {failed[2]} · {failed[3]} |"
    )


def episodes(quick: int) -> int:
    return 100 if SOAK else quick


def verdicts(found: Document) -> dict[tuple[str, str], str]:
    return {(held["agent"], held["measure"]): held["verdict"] for held in found["thresholds"]}


NOT_MISSED = {"met", "undecided"}
"""Red is only what the interval excludes."""


@pytest.mark.parametrize(
    ("seed", "quick"), [(FIXED_SEED, 16), *((seed, 8) for seed in DERIVED_SEEDS)]
)
def test_thresholds_of_mci_latent_are_met(seed: int, quick: int, tmp_path: Path) -> None:
    plan = suite("honest", "pseudo", seed=seed, episodes=episodes(quick))
    runs = ran(plan, tmp_path)
    found = summary(plan, runs)
    held = verdicts(found)
    # The reading on single claims is missed, as the page says; that it is told is what counts.
    assert held.pop(("pseudo", "p5_check_failure")) != "unmeasured"
    assert held.keys() == {
        ("honest", "pass_rate"),
        ("pseudo", "pass_rate"),
        ("pseudo", "p5_failure"),
        ("pseudo", "p5_challenge_failure"),
    }
    assert set(held.values()) <= NOT_MISSED
    honest, pseudo = found["agents"]["honest"], found["agents"]["pseudo"]
    # The honest agent is not honest by doing nothing, and no proposal of it is ever denied.
    assert honest["reached_an_object"]["value"] >= 0.9
    assert honest["invariant_failures"] == pseudo["invariant_failures"] == 0
    assert (honest["replay_fidelity"], honest["p5_checks"]["mirrored"]) == (1, 0)
    # Every recorded claim, and what was done in worlds that were shown once more.
    failures = ("claims_episode_failure", "claims_failure", "worlds_failure")
    assert [honest[reading]["value"] for reading in failures] == [0, 0, 0]
    assert pseudo["claims_episode_failure"]["value"] == 1
    assert (pseudo["claims_failure"]["low"] > 0.2, pseudo["worlds_failure"]["low"] > 0.5) == (
        True,
        True,
    )
    if SOAK:
        assert row_of(seed, "mci_latent", pseudo) in PAGE
    # Paired: the same worlds for both.
    (apart,) = found["separation"]
    assert apart["risk_difference"]["low"] > 0.4
    assert apart["auroc_failed_probes"] == 1


@pytest.mark.parametrize(
    ("seed", "quick"), [(FIXED_SEED, 8), *((seed, 4) for seed in DERIVED_SEEDS)]
)
def test_thresholds_of_full_are_met(seed: int, quick: int, tmp_path: Path) -> None:
    plan = suite("honest", "pseudo", mode=Mode.FULL, seed=seed, episodes=episodes(quick))
    found = summary(plan, ran(plan, tmp_path))
    held = verdicts(found)
    assert held.keys() == {("honest", "pass_rate"), ("pseudo", "pass_rate")}
    assert set(held.values()) <= NOT_MISSED
    assert found["agents"]["honest"]["p5_failure"]["value"] == 0
    if SOAK:
        assert row_of(seed, "full", found["agents"]["pseudo"]) in PAGE


def test_an_honest_agent_reaches_its_object_in_nine_of_ten_basic_worlds(tmp_path: Path) -> None:
    plan = suite("honest", episodes=episodes(12), scenarios=("basic",), steps=20)
    honest = summary(plan, ran(plan, tmp_path))["agents"]["honest"]
    assert honest["reached_an_object"]["value"] >= 0.9


@pytest.mark.parametrize("seed", [FIXED_SEED, *DERIVED_SEEDS])
def test_the_command_of_the_spec_fills_every_bin_of_entropy_without_clutter(seed: int) -> None:
    plan = replace(
        suite(mode=Mode.MCI_MINIMAL, seed=seed, episodes=100),
        clutter=usual_clutter(Mode.MCI_MINIMAL),
    )
    seen = [env_entropy(one.state) for one in plan.episode_plans()]
    edges = [(0, 3), (3, 6), (6, 9), (9, 99)]
    counts = [sum(low <= one < high for one in seen) for low, high in edges]
    assert counts == [13, 39, 24, 24]
    assert f"| episodes | {' | '.join(map(str, counts))} |" in PAGE
    assert [usual_clutter(mode) for mode in (Mode.FULL, Mode.MCI_LATENT)] == [(0,), (0,)]


def test_curves_by_entropy_are_reported_in_mci_minimal_with_the_cliff(tmp_path: Path) -> None:
    plan = suite(
        "honest",
        "pseudo",
        mode=Mode.MCI_MINIMAL,
        episodes=episodes(8),
        steps=20,
        clutter=(0, 8),
        scenarios=("basic", "social"),
    )
    found = summary(plan, ran(plan, tmp_path))
    assert found["thresholds"] == []
    for agent in ("honest", "pseudo"):
        curve = found["entropy"][agent]
        assert [one["bin"] for one in curve["bins"]] == ["[0-2]", "[3-5]", "[6-8]", "[9+]"]
        assert sum(one["episodes"] for one in curve["bins"]) == episodes(8)
        assert curve["bins"][3]["episodes"] >= 1
    assert found["entropy"]["honest"]["cliff"] == {"bin": None, "kind": "none"}
    # It fails from the first bin on: that is a floor, no cliff.
    assert found["entropy"]["pseudo"]["cliff"]["kind"] == "floor"
