"""The sign-flip test against a count by hand, and drawn against gone through."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from theatre.engine.scoring.differences import (
    DRAWS,
    MAX_ENUMERATED,
    detectable_difference,
    mean_difference,
    sign_flip_test,
)

SEED = "5e" * 32


def counted_out(differences: list[int]) -> float:
    moved = [one for one in differences if one]
    sums = [
        sum(sign * one for sign, one in zip(signs, moved, strict=True))
        for signs in product((1, -1), repeat=len(moved))
    ]
    return sum(abs(one) >= abs(sum(moved)) for one in sums) / len(sums)


@pytest.mark.parametrize("count", range(9))
def test_few_differences_are_gone_through(count: int) -> None:
    draw = np.random.default_rng(count)
    differences = [int(one) * 10**8 for one in draw.integers(-4, 8, count)]
    found = sign_flip_test(differences, seed=SEED)
    assert found["p_value"] == pytest.approx(counted_out(differences), abs=1e-6)
    assert (found["draws"], found["differing"]) == (None, sum(one != 0 for one in differences))


def test_drawn_signs_come_near_the_exact_value() -> None:
    draw = np.random.default_rng(7)
    differences = [int(one) * 10**8 or 1 for one in draw.integers(-5, 7, MAX_ENUMERATED + 1)]
    found = sign_flip_test(differences, seed=SEED)
    exact = counted_out(differences)
    assert found["draws"] == DRAWS
    assert 0.05 < exact < 0.95
    # Five standard errors of the draws.
    room = 5 * (exact * (1 - exact) / DRAWS) ** 0.5
    assert found["p_value"] == pytest.approx(exact, abs=room)
    assert found == sign_flip_test(differences, seed=SEED)


def test_no_drawn_p_value_is_nought() -> None:
    found = sign_flip_test([10**9] * 100, seed=SEED)
    assert found["p_value"] == round(1 / (DRAWS + 1), 6)


def test_where_nothing_differs_nothing_is_found() -> None:
    assert sign_flip_test([0] * 40, seed=SEED)["p_value"] == 1


def test_a_null_is_rejected_as_seldom_as_it_says() -> None:
    runs = np.random.default_rng(11).integers(-9, 10, (400, 12))
    found = [sign_flip_test([int(one) * 10**8 for one in run], seed=SEED) for run in runs]
    rejected = sum(float(str(one["p_value"])) <= 0.05 for one in found)
    # Never more than one in twenty but for chance: five standard errors above it.
    assert 0 < rejected <= len(runs) * 0.05 + 5 * (len(runs) * 0.05 * 0.95) ** 0.5


def test_the_detectable_difference_is_found_about_four_times_in_five() -> None:
    half = Fraction(1, 2)
    differences = [-half] * 12 + [Fraction(0)] * 36 + [half] * 12
    needed = detectable_difference({str(at): [one] for at, one in enumerate(differences)})
    assert needed is not None
    moved = [one + Fraction(needed) for one in differences]
    runs = np.random.default_rng(3).integers(0, len(moved), (400, len(moved)))
    lows = [
        mean_difference({str(at): [moved[i]] for at, i in enumerate(run)})["low"] for run in runs
    ]
    seen = sum(isinstance(low, float) and low > 0 for low in lows) / len(runs)
    # Four standard errors, and what the two added units bring.
    assert 0.7 < seen < 0.9


@pytest.mark.parametrize("values", [[], [Fraction(1)], [Fraction(1), Fraction(-1)]])
def test_too_few_changes_can_detect_nothing(values: list[Fraction]) -> None:
    assert detectable_difference({str(at): [one] for at, one in enumerate(values)}) is None
