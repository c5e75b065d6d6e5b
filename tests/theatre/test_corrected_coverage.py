"""How often a certificate's corrected score holds the truth, whose errors it goes by.

Runs with a scripted judge, through what settles a run: the tallies of control items, or those of a
qualification by change, to `corrected_scores`. `make soak-figures` simulates each cell of the table
in docs/statistics.md 2,000 times and gets the documented shares to the digit.
"""

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import wilson_interval
from theatre.engine.scoring.corrections import JudgeErrors, corrected_score, effective_tally
from theatre.engine.scoring.differences import Tally
from theatre.engine.scoring.run_controls import corrected_scores

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
HEADER = (
    "| sensitivity, specificity | errors from | score | 10 % | 30 % | 50 % | 70 % | 90 % |\n"
    "|---|---|---|---|---|---|---|---|\n"
)
TRUTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
RUNS, FEW = 2_000, 40
CRITERION, ITEMS, CONTROLS, CHANGES = "precision", 300, 120, 100
DOCUMENT: JsonObject = {"scoring": {"criteria_scorers": {CRITERION: {"scorer": "llm_judge"}}}}
SIDES = {"true": "sensitivity", "false": "specificity"}
ALIKE = 40.0
"""How alike verdicts about one change are: the sum of the parameters of a beta distribution."""


def documented() -> list[tuple[str, str, str, tuple[float, ...]]]:
    """Return the table's rows: judge, whose errors, score, shares that hold."""
    (table,) = re.findall(re.escape(HEADER) + r"((?:\|.*\|\n)+)", PAGE)
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [
        (judge, source.strip("`"), score, tuple(float(one) / 100 for one in shares))
        for judge, source, score, *shares in rows
    ]


def aggregate(hits: int) -> JsonObject:
    """Return what a run's aggregate says of ITEMS answers of which so many were supported."""
    return {
        "score_counts": {CRITERION: {"scored": ITEMS, "missing": 0}},
        "score_intervals": {CRITERION: wilson_interval(hits, ITEMS)},
        "answered_only": {CRITERION: hits / ITEMS},
        "scores": {CRITERION: hits / ITEMS},
        "human_scores": None,
    }


def tallies(rng: np.random.Generator, judge: dict[str, float]) -> dict[str, Any]:
    """Return what `judge_controls` counts of CONTROLS of either sort, half of either source."""
    right = {
        name: {side: int(rng.binomial(CONTROLS // 2, judge[side])) for side in SIDES}
        for name in ("planted", "labelled")
    }

    def part(hits: dict[str, int], asked: int) -> dict[str, Any]:
        sides = {side: {"right": hits[side], "asked": asked} for side in SIDES}
        rates = {SIDES[side]: wilson_interval(hits[side], asked) for side in SIDES}
        return {**sides, **rates, "unusable": 0, "independent": sides}

    whole = {side: sum(one[side] for one in right.values()) for side in SIDES}
    return {
        **part(whole, CONTROLS),
        "recognised": 0.5,
        "by_source": {name: part(one, CONTROLS // 2) for name, one in right.items()},
    }


def qualified(rng: np.random.Generator, judge: dict[str, float]) -> JudgeErrors:
    """Return the errors on a labelled set whose changes are harder and easier ones."""
    sides = []
    for side, claims in (("true", 2), ("false", 4)):
        rates = rng.beta(ALIKE * judge[side], ALIKE * (1 - judge[side]), CHANGES)
        hits = rng.binomial(claims, rates)
        sides.append(effective_tally({str(at): Tally(int(n), claims) for at, n in enumerate(hits)}))
    return JudgeErrors(*sides)


def corrected(
    rng: np.random.Generator, hits: int, source: str, judge: dict[str, float]
) -> dict[str, Any]:
    if source == "qualification":
        found = corrected_score(aggregate(hits), CRITERION, qualified(rng, judge), source=source)
        return cast("dict[str, Any]", found)
    whole: Any = corrected_scores(
        DOCUMENT, {}, aggregate(hits), {}, {CRITERION: tallies(rng, judge)}, {}
    )
    return cast("dict[str, Any]", whole[CRITERION])


def shares_held(named: str, source: str, score: str, runs: int) -> list[float]:
    """Return how many of the runs that have an interval hold the truth, by true rate."""
    judge = dict(zip(SIDES, (float(one) for one in named.split(", ")), strict=True))
    found = []
    for place, truth in enumerate(TRUTHS):
        rng = np.random.default_rng([place, round(1000 * judge["true"]), len(source)])
        rate = truth * judge["true"] + (1 - truth) * (1 - judge["false"])
        held = []
        for hits in rng.binomial(ITEMS, rate, runs).tolist():
            if score == "raw":
                interval: dict[str, Any] = dict(wilson_interval(hits, ITEMS))
            else:
                interval = corrected(rng, hits, source, judge)
                assert interval["errors_from"] == source
            if interval["low"] is not None:
                held.append(interval["low"] <= truth <= interval["high"])
        found.append(sum(held) / len(held))
    return found


@pytest.mark.parametrize(("judge", "source", "score", "shares"), documented(), ids=str)
def test_a_score_holds_the_truth_as_often_as_documented(
    judge: str, source: str, score: str, shares: tuple[float, ...]
) -> None:
    found = shares_held(judge, source, score, RUNS)
    assert found == pytest.approx(list(shares), abs=0.00051)


@pytest.mark.parametrize("source", ["controls", "qualification"])
def test_in_a_few_runs_too_the_corrected_score_holds_the_truth_and_the_raw_one_does_not(
    source: str,
) -> None:
    judge = "0.95, 0.7"
    # Of 200 runs 190 are expected to hold it: fewer than 178 would come once in 5,000 times.
    assert sum(shares_held(judge, source, "corrected", FEW)) / len(TRUTHS) >= 178 / 200
    assert sum(shares_held(judge, source, "raw", FEW)) / len(TRUTHS) < 0.5


def test_every_corrected_score_is_documented_to_hold_and_the_raw_one_not_to() -> None:
    rows = documented()
    assert {source for _, source, score, _ in rows if score == "corrected"} == {
        "controls", "qualification",
    }  # fmt: skip
    for _, _, score, shares in rows:
        if score == "corrected":
            assert all(0.93 <= share <= 0.97 for share in shares)
        else:
            assert sum(share < 0.85 for share in shares) >= 2
