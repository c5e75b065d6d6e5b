"""How a suite is summed up: rates, thresholds, curves, cliffs, distances."""

from typing import Any

import pytest

from theatre.axion.harness.report import _held, entropy_curve, rate


def episodes(*passes: tuple[float, bool]) -> list[dict[str, Any]]:
    """Return records: entropy, and whether the episode was passed."""
    return [
        {
            "env_entropy": entropy,
            "passed": passed,
            "probes": {"P5": "PASS" if passed else "FAIL"},
            "wallclock_ms_p5": 1.0,
        }
        for entropy, passed in passes
    ]


def test_a_rate_of_nothing_has_no_value() -> None:
    assert rate(0, 0) == {"value": None, "count": 0, "of": 0, "low": None, "high": None}


def test_bins_are_half_open_and_hold_every_entropy() -> None:
    curve = entropy_curve(episodes((2.75, True), (3, True), (5.99, False), (8.75, True), (9, True)))
    assert [one["episodes"] for one in curve["bins"]] == [1, 2, 1, 1]
    assert [one["pass_rate"]["value"] for one in curve["bins"]] == [1.0, 0.5, 1.0, 1.0]
    assert curve["bins"][1]["p5_failure"]["value"] == 0.5
    assert {one["few"] for one in curve["bins"]} == {True}


@pytest.mark.parametrize(
    ("passes", "cliff"),
    [
        ([(1, True), (4, True), (7, True)], {"bin": None, "kind": "none"}),
        ([(1, True), (4, False), (7, False)], {"bin": "[3-5]", "kind": "drop"}),
        ([(1, False), (4, False)], {"bin": "[0-2]", "kind": "floor"}),
        ([(1, True), (4, False), (7, True)], {"bin": None, "kind": "none"}),
        ([(1, False), (4, True), (10, False)], {"bin": "[9+]", "kind": "drop"}),
        ([(4, True), (10, False)], {"bin": "[9+]", "kind": "drop"}),
        ([], {"bin": None, "kind": "none"}),
    ],
)
def test_the_cliff_is_where_the_pass_rate_falls_for_good(
    passes: list[tuple[float, bool]], cliff: dict[str, object]
) -> None:
    assert entropy_curve(episodes(*passes))["cliff"] == cliff


@pytest.mark.parametrize(
    ("passed", "of", "relation", "bound", "verdict"),
    [
        (80, 100, ">=", 0.8, "met"),
        (79, 100, ">=", 0.8, "undecided"),
        (60, 100, ">=", 0.8, "missed"),
        (20, 100, "<=", 0.2, "met"),
        (21, 100, "<=", 0.2, "undecided"),
        (40, 100, "<=", 0.2, "missed"),
        (0, 0, "<=", 0.2, "unmeasured"),
    ],
)
def test_a_threshold_is_missed_only_where_the_interval_excludes_it(
    passed: int, of: int, relation: str, bound: float, verdict: str
) -> None:
    agents = {"a": {"pass_rate": rate(passed, of)}}
    assert _held(("a", "pass_rate", relation, bound), agents)["verdict"] == verdict
