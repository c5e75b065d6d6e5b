"""Corrected rates: what they hold in simulated runs, other methods, and when there is none.

`make soak` simulates each cell of the table in docs/statistics.md 10,000 times and must get the
documented shares; the normal run must come as near as chance allows.
"""

import math
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import wilson_interval
from theatre.engine.scoring.corrections import JudgeErrors, corrected_rate, powered_rate
from theatre.engine.scoring.differences import Tally, effective_pairs

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
HEADER = (
    "| sensitivity, specificity | items | known | rate | 10 % | 30 % | 50 % | 70 % | 90 % |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
TRUTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
SOAK = os.environ.get("ECHELON_SOAK") == "1"
RUNS = 10_000 if SOAK else 1_000
LABELLED_RUNS = 10_000 if SOAK else 200

Row = tuple[str, int, int, str, tuple[float, ...]]


def documented() -> list[Row]:
    """Return the table's rows: judge, items, controls or labels, rate, shares that hold."""
    (table,) = re.findall(re.escape(HEADER) + r"((?:\|.*\|\n)+)", PAGE)
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [
        (judge, int(items), int(known.split()[0]), rate, tuple(float(one) / 100 for one in shares))
        for judge, items, known, rate, *shares in rows
    ]


ROWS = documented()


def holds(interval: JsonObject, truth: float) -> bool:
    return float(str(interval["low"])) <= truth <= float(str(interval["high"]))


def shares_held(judge: str, items: int, known: int, rate: str, runs: int) -> list[float]:
    """Return how many of the runs that have an interval hold the truth, by true rate."""
    sensitivity, specificity = (float(one) for one in judge.split(", "))
    found = []
    for place, truth in enumerate(TRUTHS):
        rng = np.random.default_rng([items, known, round(1000 * sensitivity), place])
        if rate == "PPI++":
            held = labelled_runs(rng, truth, (sensitivity, specificity), (items, known), runs)
        else:
            share = truth * sensitivity + (1 - truth) * (1 - specificity)
            judged = rng.binomial(items, share, runs).tolist()
            right = rng.binomial(known, sensitivity, runs).tolist()
            refused = rng.binomial(known, specificity, runs).tolist()
            if rate == "raw":
                intervals = [wilson_interval(hits, items) for hits in range(items + 1)]
                held = [holds(intervals[hits], truth) for hits in judged]
            else:
                held = [
                    holds(one, truth)
                    for one in map(
                        corrected, judged, [items] * runs, right, refused, [known] * runs
                    )
                    if one["reason"] is None
                ]
        found.append(sum(held) / len(held))
    return found


def corrected(hits: int, items: int, right: int, refused: int, controls: int) -> JsonObject:
    errors = JudgeErrors(Tally(right, controls), Tally(refused, controls))
    return corrected_rate(Fraction(hits, items), items, items, errors)


def labelled_runs(
    rng: np.random.Generator,
    truth: float,
    judge: tuple[float, float],
    sizes: tuple[int, int],
    runs: int,
) -> list[bool]:
    items, labelled = sizes
    held = []
    for _ in range(runs):
        labels = rng.random(items) < truth
        said = judged_as(rng, labels, judge)
        interval = powered_rate(labels[:labelled].tolist(), said[:labelled], said[labelled:])
        held.append(holds(interval, truth))
    return held


def judged_as(
    rng: np.random.Generator, labels: npt.NDArray[np.bool_], judge: tuple[float, float]
) -> list[float]:
    drawn = rng.random(len(labels))
    said: list[float] = np.where(labels, drawn < judge[0], drawn >= judge[1]).tolist()
    return said


@pytest.mark.parametrize(("judge", "items", "known", "rate", "shares"), ROWS, ids=str)
def test_a_rate_holds_the_truth_as_often_as_documented(
    judge: str, items: int, known: int, rate: str, shares: tuple[float, ...]
) -> None:
    runs = LABELLED_RUNS if rate == "PPI++" else RUNS
    found = shares_held(judge, items, known, rate, runs)
    for measured, share in zip(found, shares, strict=True):
        # The half point is for a share of 0 % or 100 %, which is rounded too.
        error = 0.002 if SOAK else 4 * math.sqrt(share * (1 - share) / runs) + 0.005
        assert measured == pytest.approx(share, abs=error)
    if rate != "raw":
        assert 0.93 <= sum(found) / len(found) <= 0.97


def test_every_corrected_rate_is_documented_to_hold_and_the_raw_one_not_to() -> None:
    raw = [share for *_, rate, shares in ROWS if rate == "raw" for share in shares]
    corrected_ones = [share for *_, rate, shares in ROWS if rate != "raw" for share in shares]
    assert len(corrected_ones) >= len(raw) >= 20
    assert all(0.93 <= share <= 0.97 for share in corrected_ones)
    assert sum(share < 0.93 for share in raw) > len(raw) / 2
    assert sum(share < 0.35 for share in raw) > len(raw) / 4


def test_the_value_is_the_rate_that_the_judges_errors_would_turn_into_the_one_seen() -> None:
    # 30 % true, sensitivity 0.9, specificity 0.8: 0.27 + 0.14 are called true.
    found = corrected(410, 1000, 90, 80, 100)
    assert (found["value"], found["method"], found["reason"]) == (0.3, "lang_reiczigel", None)
    assert holds(found, 0.3)
    # From the published formulas, in decimals of 40 digits.
    assert (found["low"], found["high"]) == (0.196086, 0.386801)


def test_an_interval_is_that_of_the_delta_method_where_there_is_much_of_everything() -> None:
    items, controls, (p, se, sp) = 40_000, 20_000, (0.41, 0.9, 0.8)
    found = corrected(round(p * items), items, round(se * controls), round(sp * controls), controls)
    skill = se + sp - 1
    value = (p + sp - 1) / skill
    variance = (
        p * (1 - p) / items
        + value**2 * se * (1 - se) / controls
        + (1 - value) ** 2 * sp * (1 - sp) / controls
    ) / skill**2
    half = 1.959964 * math.sqrt(variance)
    assert (found["low"], found["high"]) == pytest.approx((value - half, value + half), abs=5e-4)


def test_an_interval_is_near_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(22)
    items, controls = 600, 300
    rates = [rng.binomial(n, share, 100_000) / n
             for n, share in ((items, 0.45), (controls, 0.85), (controls, 0.9))]  # fmt: skip
    drawn = (rates[0] + rates[2] - 1) / (rates[1] + rates[2] - 1)
    found = corrected(270, items, 255, 270, controls)
    bounds = np.quantile(drawn, (0.025, 0.975))
    assert (found["low"], found["high"]) == pytest.approx(tuple(bounds), abs=0.005)


def test_items_that_share_clusters_count_as_fewer() -> None:
    units = {str(place): Tally(3 * (place % 2), 3) for place in range(100)}
    trials = effective_pairs(units)
    assert trials == pytest.approx(99, abs=1)
    errors = JudgeErrors(Tally(190, 200), Tally(180, 200))
    alone, together = (corrected_rate(Fraction(1, 2), 300, n, errors) for n in (300, trials))
    assert together["value"] == alone["value"]
    widths = [float(str(one["high"])) - float(str(one["low"])) for one in (alone, together)]
    assert widths[1] > 1.4 * widths[0]


@pytest.mark.parametrize(
    ("hits", "items", "right", "true", "refused", "false", "reason"),
    [
        (50, 99, 90, 100, 90, 100, "fewer than 100 items"),
        (50, 100, 90, 99, 90, 100, "fewer than 100 true controls"),
        (50, 100, 90, 100, 90, 99, "fewer than 100 false controls"),
        (50, 100, 65, 100, 64, 100, "sensitivity + specificity below 1.3"),
        # One that says yes to all, and one that tells nothing apart.
        (100, 100, 100, 100, 0, 100, "sensitivity + specificity below 1.3"),
        (50, 100, 50, 100, 50, 100, "sensitivity + specificity below 1.3"),
        # It refused 70 % of the false controls, and every item: those are no such items.
        (0, 100, 100, 100, 70, 100, "the judged rate is one that the judge's known errors cannot"),
        (
            400,
            400,
            70,
            100,
            100,
            100,
            "the judged rate is one that the judge's known errors cannot",
        ),
    ],
)
def test_there_is_no_corrected_rate_and_the_reason_is_given(
    hits: int, items: int, right: int, true: int, refused: int, false: int, reason: str
) -> None:
    errors = JudgeErrors(Tally(right, true), Tally(refused, false))
    found = corrected_rate(Fraction(hits, items), items, items, errors)
    assert (found["value"], found["low"], found["high"]) == (None, None, None)
    assert found["method"] == "undefined"
    assert str(found["reason"]).startswith(reason)


def test_a_sum_of_13_tenths_is_enough_and_a_rate_never_leaves_0_to_1() -> None:
    assert corrected(50, 100, 65, 65, 100)["value"] == 0.5
    below = corrected(8, 100, 90, 90, 100)
    assert (below["value"], below["low"]) == (0.0, 0.0)
    assert 0 < float(str(below["high"])) < 0.1
    above = corrected(95, 100, 90, 90, 100)
    assert (above["value"], above["high"]) == (1.0, 1.0)


# Labels on a part of the items.


def test_a_judge_that_knows_all_is_worth_as_many_labels() -> None:
    labels = [1, 0, 0, 0] * 25
    found = powered_rate(labels, labels, [1, 0, 0, 0] * 75)
    wilson = wilson_interval(100, 400)
    assert (found["value"], found["method"], found["reason"]) == (0.25, "ppi_wilson", None)
    # The variances have n - 1 below, Wilson's n.
    assert (found["low"], found["high"]) == pytest.approx((wilson["low"], wilson["high"]), abs=1e-3)


@pytest.mark.parametrize("said", [1, 0])
def test_a_judge_that_says_one_thing_to_all_adds_nothing(said: int) -> None:
    labels = [1, 0, 1, 0, 0] * 20
    found = powered_rate(labels, [said] * 100, [said] * 500)
    wilson = wilson_interval(40, 100)
    assert found["value"] == 0.4
    assert (found["low"], found["high"]) == pytest.approx((wilson["low"], wilson["high"]), abs=2e-3)


def test_a_judge_that_is_always_wrong_adds_nothing() -> None:
    labels = [1, 0, 1, 0, 0] * 20
    assert powered_rate(labels, [1 - one for one in labels], [1] * 500)["value"] == 0.4


def test_labels_that_are_all_alike_keep_a_width() -> None:
    found = powered_rate([1] * 100, [1] * 100, [1] * 900)
    assert (found["value"], found["high"]) == (1.0, 1.0)
    assert found["low"] == wilson_interval(100, 100)["low"]
    # Moved onto the edge by the others: the variance is not 0, and Wilson's n would be.
    moved = powered_rate([0] * 99 + [1], [0] * 99 + [1], [0] * 900)
    assert (moved["value"], moved["low"]) == (0.0, 0.0)
    assert moved["high"] == wilson_interval(0, 100)["high"]


def test_graded_labels_are_weighed_as_a_minimiser_and_a_bootstrap_weigh_them() -> None:
    rng = np.random.default_rng(800)
    n, others = 400, 1600
    truth = rng.beta(2, 1, n + others)
    said = np.clip(truth + rng.normal(0.1, 0.2, n + others), 0, 1)
    labels, judged, rest = truth[:n], said[:n], said[n:]
    found = powered_rate(labels.tolist(), judged.tolist(), rest.tolist())

    def variance(weight: float) -> float:
        return float(
            (labels - weight * judged).var(ddof=1) / n + weight**2 * rest.var(ddof=1) / others
        )

    from scipy.optimize import minimize_scalar

    weight = minimize_scalar(variance, bounds=(0, 1), method="bounded").x
    value = labels.mean() + weight * (rest.mean() - judged.mean())
    assert found["value"] == pytest.approx(value, abs=0.002)
    places = rng.integers(n, size=(4_000, n)), rng.integers(others, size=(4_000, others))
    drawn = (labels - weight * judged)[places[0]].mean(axis=1) + weight * rest[places[1]].mean(
        axis=1
    )
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=0.006)


@pytest.mark.parametrize(
    ("labels", "others", "reason"),
    [(99, 400, "fewer than 100 labelled items"), (100, 0, "no items without a label")],
)
def test_there_is_no_powered_rate_and_the_reason_is_given(
    labels: int, others: int, reason: str
) -> None:
    found = powered_rate([1] * labels, [1] * labels, [1] * others)
    assert (found["value"], found["low"], found["reason"]) == (None, None, reason)


def test_nothing_depends_on_the_order_of_items() -> None:
    rng = np.random.default_rng(3)
    pairs = [(round(float(one), 3), round(float(two), 3)) for one, two in rng.random((150, 2))]
    others = rng.random(333).tolist()
    first = powered_rate([one for one, _ in pairs], [two for _, two in pairs], others)
    pairs.sort()
    again = powered_rate([one for one, _ in pairs], [two for _, two in pairs], sorted(others))
    assert first == again
    assert Fraction(str(first["value"])) <= 1
