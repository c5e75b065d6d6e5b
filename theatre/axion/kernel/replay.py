"""The replay model: logits = W f + b, exact in integers, so that every machine agrees.

Numbers are counted in units of 1e-8, which is what `axion8` writes: what was hashed is what is
computed. Ties go to the lowest index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from theatre.axion.common.errors import ReplayModelError
from theatre.axion.common.hashing import Document

UNIT = 10**8
"""Units in 1."""

ACTIONS = (
    "MOVE_N",
    "MOVE_S",
    "MOVE_E",
    "MOVE_W",
    "WAIT",
    "PICKUP",
    "DROP",
    "SIGNAL",
    "USE_TOOL",
    "NOOP",
)
"""What a model may choose between."""


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Actions, one row of weights an action, one bias an action; weights and biases in units."""

    actions: tuple[str, ...]
    weights: tuple[tuple[int, ...], ...]
    biases: tuple[int, ...]

    def logits(self, factors: Sequence[int]) -> list[int]:
        """Return the logits of `factors` (units), in units squared, in the order of actions."""
        return [
            sum(map(int.__mul__, row, factors)) + bias * UNIT
            for row, bias in zip(self.weights, self.biases, strict=True)
        ]

    def choice(self, factors: Sequence[int]) -> str:
        """Return the action with the highest logit."""
        return self.actions[best(self.logits(factors))]

    def as_document(self) -> Document:
        """Return the `replay_model` of a trace."""
        return {
            "model_type": "linear_logits",
            "actions": list(self.actions),
            "params": {
                "W": [[number(weight) for weight in row] for row in self.weights],
                "b": [number(bias) for bias in self.biases],
            },
        }


def best(logits: Sequence[int]) -> int:
    """Return the index of the highest logit, the lowest of those that tie."""
    return max(range(len(logits)), key=logits.__getitem__)


def units(value: float) -> int:
    """Return `value` in units, rounded half to even as `axion8` rounds it."""
    return round(Fraction(value) * UNIT)


def number(count: int) -> float:
    """Return the number that `count` units are."""
    return count / UNIT


def model_of(document: Mapping[str, Any], factor_dim: int) -> LinearModel:
    """Return the model that a schema-valid `replay_model` describes, for `factor_dim` factors.

    Raises ReplayModelError unless there is a row and a bias for each action, a weight for each
    factor, and each action is another one of the ten.
    """
    actions: list[str] = document["actions"]
    rows, biases = document["params"]["W"], document["params"]["b"]
    if not len(actions) == len(rows) == len(biases):
        raise ReplayModelError(
            f"expected as many rows and biases as actions, got {len(actions)} actions, "
            f"{len(rows)} rows, {len(biases)} biases"
        )
    if len(set(actions)) != len(actions) or not set(actions) <= set(ACTIONS):
        raise ReplayModelError(f"expected different actions of the ten, got {actions}")
    for place, row in enumerate(rows):
        if len(row) != factor_dim:
            raise ReplayModelError(f"expected {factor_dim} weights in row {place}, got {len(row)}")
    return LinearModel(
        actions=tuple(actions),
        weights=tuple(tuple(units(weight) for weight in row) for row in rows),
        biases=tuple(units(bias) for bias in biases),
    )
