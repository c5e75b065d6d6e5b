"""How often each interval holds the truth: simulated, and told in docs/statistics.md as it is.

`make soak` repeats each case 1,000 times and must get the documented shares; the normal run
repeats each a few times, from the same seeds, and must come as near as chance allows.
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from tests.theatre.scored_runs import NANO, SCORER
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, Scored, Verdict
from theatre.engine.scoring import CriterionPlan, wilson_interval
from theatre.engine.scoring.tallies import ResampledUnits

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
SOAK = os.environ.get("ECHELON_SOAK") == "1"
DOCUMENTED_REPEATS = 1000
REPEATS = DOCUMENTED_REPEATS if SOAK else 20
HEADER = "| scores | units | method | holds the truth |\n|---|---|---|---|\n"

Values = npt.NDArray[np.float64]
Row = tuple[dict[str, CriterionResult], str | None]


@dataclass(frozen=True)
class Population:
    """Something to draw runs from: the truth, and a run as rows of results with a cluster."""

    truth: float
    run: Callable[[np.random.Generator, int], Iterator[Row]]
    weights: tuple[Fraction, ...] = (Fraction(1),)


def rows(*columns: Values) -> Iterator[Row]:
    """Yield an episode a place; NaN where a criterion does not apply."""
    for values in zip(*columns, strict=True):
        yield {f"c{column}": _result(value) for column, value in enumerate(values)}, None


def _result(value: float) -> CriterionResult:
    return Verdict.NOT_APPLICABLE if math.isnan(value) else Scored(round(value * NANO))


def spread_out(rng: np.random.Generator, n: int) -> Iterator[Row]:
    return rows(rng.beta(2, 2, n))


def mostly_full_marks(rng: np.random.Generator, n: int) -> Iterator[Row]:
    return rows(np.where(rng.random(n) < 0.7, 1, rng.beta(2, 2, n)))


def nearly_always_0(rng: np.random.Generator, n: int) -> Iterator[Row]:
    return rows(np.where(rng.random(n) < 0.9, 0, rng.beta(2, 2, n)))


def right_by_cluster(rng: np.random.Generator, clusters: int) -> Iterator[Row]:
    """Draw 1 to 9 right or wrong answers a cluster, each cluster with a difficulty of its own."""
    for number, share in enumerate(rng.beta(4, 1, clusters)):
        for right in rng.random(rng.integers(1, 10)) < share:
            yield {"c0": Scored(NANO * int(right))}, f"cluster {number}"


def two_on_the_same_episodes(rng: np.random.Generator, n: int) -> Iterator[Row]:
    difficulty = rng.random(n)
    return rows((difficulty < 0.8).astype(np.float64), 1 - difficulty**2)


def two_on_different_episodes(rng: np.random.Generator, n: int) -> Iterator[Row]:
    half = n // 2
    right, nowhere = (rng.random(half) < 0.8).astype(np.float64), np.full(half, np.nan)
    graded = rng.beta(2, 2, half)
    return rows(np.concatenate([right, nowhere]), np.concatenate([nowhere, graded]))


SEVEN_THREE = (Fraction(7, 10), Fraction(3, 10))
POPULATIONS = {
    "graded, spread out": Population(0.5, spread_out),
    "graded, 70 % full marks": Population(0.85, mostly_full_marks),
    "graded, 90 % zeros": Population(0.05, nearly_always_0),
    "right or wrong, in clusters": Population(0.8, right_by_cluster),
    "composite, same episodes": Population(
        0.7 * 0.8 + 0.3 * 2 / 3, two_on_the_same_episodes, SEVEN_THREE
    ),
    "composite, different episodes": Population(
        0.7 * 0.8 + 0.3 * 0.5, two_on_different_episodes, SEVEN_THREE
    ),
}


def documented() -> list[tuple[str, int, str, float]]:
    """Return the rows of the table: scores, units, method, share."""
    (table,) = re.findall(re.escape(HEADER) + r"((?:\|.*\|\n)+)", PAGE)
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [
        (scores, int(units.replace(",", "")), method.strip("`"), float(share.rstrip(" %")) / 100)
        for scores, units, method, share in cells
    ]


CASES = documented()
SIMULATED = [case for case in CASES if case[2] != "wilson"]
EXACT = [case for case in CASES if case[2] == "wilson"]


def names(cases: list[tuple[str, int, str, float]]) -> list[str]:
    return [f"{scores}, {units} units" for scores, units, *_ in cases]


def interval_of(population: Population, units: int, repeat: int) -> JsonObject:
    plans = [
        CriterionPlan(criterion_id=f"c{column}", scorer=SCORER, params={}, weight=weight)
        for column, weight in enumerate(population.weights)
    ]
    gathered = ResampledUnits(plans)
    for scores, cluster in population.run(np.random.default_rng([units, repeat]), units):
        gathered.add(scores, cluster)
    seed = hashlib.sha256(f"{units}:{repeat}".encode()).hexdigest()
    if len(plans) == 1:
        return gathered.criterion_interval(0, seed=seed)
    return gathered.composite_interval(seed=seed)


def holds(interval: JsonObject, truth: float) -> bool:
    """Tell whether the truth lies inside; an undefined interval holds nothing."""
    low, high = cast("float | None", interval["low"]), cast("float | None", interval["high"])
    return low is not None and high is not None and low <= truth <= high


def coverage(scores: str, units: int, method: str, repeats: int) -> float:
    population, held = POPULATIONS[scores], 0
    for repeat in range(repeats):
        interval = interval_of(population, units, repeat)
        assert interval["method"] in {method, "undefined"}
        held += holds(interval, population.truth)
    return held / repeats


@pytest.mark.parametrize(("scores", "units", "method", "share"), SIMULATED, ids=str)
def test_a_resampled_interval_holds_the_truth_as_often_as_documented(
    scores: str, units: int, method: str, share: float
) -> None:
    error = math.sqrt(share * (1 - share) / REPEATS)
    tolerance = 0.002 if SOAK else 4 * error
    assert coverage(scores, units, method, REPEATS) == pytest.approx(share, abs=tolerance)


@pytest.mark.parametrize(("scores", "units", "method", "share"), EXACT, ids=names(EXACT))
def test_wilsons_interval_holds_the_truth_as_often_as_documented(
    scores: str, units: int, method: str, share: float
) -> None:
    (percent,) = re.findall(r"right or wrong, (\d+) % right", scores)
    truth = int(percent) / 100
    intervals = [wilson_interval(successes, units) for successes in range(units + 1)]
    assert {interval["method"] for interval in intervals} == {method}
    held = sum(
        math.comb(units, right) * truth**right * (1 - truth) ** (units - right)
        for right, interval in enumerate(intervals)
        if holds(interval, truth)
    )
    assert held == pytest.approx(share, abs=0.0005 + 1e-9)


def test_the_table_has_every_method_that_there_is() -> None:
    methods = {method for _, _, method, _ in CASES}
    assert methods == {"wilson", "bca", "clt", "cluster_bca", "cluster_clt"}
    assert {scores for scores, *_ in SIMULATED} == POPULATIONS.keys()
