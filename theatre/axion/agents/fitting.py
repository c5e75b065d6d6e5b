"""Fits a linear model to what a mind does: an averaged perceptron, exact in integers.

Floating-point fits differ in the last digit from machine to machine; this one cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from theatre.axion.agents.honest import ACTIONS
from theatre.axion.kernel.replay import UNIT, LinearModel, best

Sample = tuple[tuple[int, ...], str]
"""Factors in units, and the action that was taken."""

_EPOCHS = 8
_LARGEST_WEIGHT = 10


def fitted_model(samples: Sequence[Sample]) -> LinearModel:
    """Return the linear model that chooses most of the samples' actions, or nearly so.

    Weights and biases are scaled to at most 10. The same samples in the same order give the
    same model on every machine.
    """
    width = len(samples[0][0]) + 1
    weights = [[0] * width for _ in ACTIONS]
    sums = [[0] * width for _ in ACTIONS]
    turn = 0
    for _ in range(_EPOCHS):
        for factors, action in samples:
            turn += 1
            _learn(weights, sums, (*factors, UNIT), ACTIONS.index(action), turn)
    averaged = [
        [turn * weight - total for weight, total in zip(row, late, strict=True)]
        for row, late in zip(weights, sums, strict=True)
    ]
    return _scale(averaged)


def _learn(
    weights: list[list[int]], sums: list[list[int]], inputs: tuple[int, ...], right: int, turn: int
) -> None:
    """Move the weights where the guess is wrong; `sums` makes up for the average later."""
    scores = [sum(map(int.__mul__, row, inputs)) for row in weights]
    guess = best(scores)
    if guess == right:
        return
    for place, value in enumerate(inputs):
        weights[right][place] += value
        weights[guess][place] -= value
        sums[right][place] += turn * value
        sums[guess][place] -= turn * value


def _scale(averaged: list[list[int]]) -> LinearModel:
    largest = max((abs(weight) for row in averaged for weight in row), default=0) or 1
    rows = [[weight * _LARGEST_WEIGHT * UNIT // largest for weight in row] for row in averaged]
    return LinearModel(
        actions=ACTIONS,
        weights=tuple(tuple(row[:-1]) for row in rows),
        biases=tuple(row[-1] for row in rows),
    )
