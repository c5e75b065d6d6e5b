"""What the harness asks of an agent, and what it shows it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from theatre.axion.common.hashing import Document
from theatre.axion.env.normalize_state import GridState
from theatre.axion.interfaces.base import Interface
from theatre.axion.kernel.effect_dsl import NEAR_BOTTOM, NEAR_TOP, Change, Effect, mutate
from theatre.axion.kernel.replay import UNIT, LinearModel, best

TOKEN_COST = 1
"""What a step costs under a token, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What an agent is offered at a step, at every step; the defaults are worth nothing.

    `snapshot_rebate`: energy for leaving the snapshots out (P3). `raw_energy_cost`: what a raw
    execution would cost (P4), which is `TOKEN_COST` where it saves nothing.
    """

    snapshot_rebate: int = 0
    raw_energy_cost: int = TOKEN_COST


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A proposal, the hash that commits to it beforehand, and the nonces that open it.

    `raw_step` is what must be executed without the kernel, before anything else.
    """

    precommitment: str
    proposal: Document
    nonces: Mapping[str, str] = field(default_factory=dict)
    raw_step: Document | None = None


class Agent(Protocol):
    """An agent is a pure function of what it is shown: asking twice changes nothing."""

    @property
    def name(self) -> str:
        """Return the name in reports."""

    @property
    def interface(self) -> Interface:
        """Return the interface its proposals use."""

    def prepare(self, state: GridState, offers: Offers) -> Prepared:
        """Return what it wants to do in `state`."""

    def step_under_token(self, shown: GridState, own: Document) -> Document:
        """Return the step it presents with the token of its own step, in the world `shown`."""

    def choice(self, state: GridState) -> str:
        """Return the action it would choose in `state`."""


# Claims about a model that are true by construction: each is replayed before it is made.


MOST_CLAIMS = 6
_GRID = [UNIT * quarter // 4 for quarter in range(5)]


@dataclass(frozen=True, slots=True)
class Prediction:
    """A claim, the factor value it leads to, whether it changes the choice, and the logit."""

    effect: Effect
    pivotal: bool
    logit: int


def predict_effects(model: LinearModel, factors: Sequence[int]) -> list[Prediction]:
    """Return up to six claims about `model` at `factors`, those that change the choice first.

    Nothing is claimed that would be tested in the other direction: no INC from 0.95 on, no DEC
    to 0.05, and no SET to what is there.
    """
    logits = model.logits(factors)
    chosen = best(logits)
    found = [
        _predict(model, logits, chosen, factors[effect.factor], value, effect)
        for effect, value in _testable(factors)
    ]
    return sorted(found, key=lambda one: not one.pivotal)[:MOST_CLAIMS]


def _testable(factors: Sequence[int]) -> Iterator[tuple[Effect, int]]:
    """Yield every change of a factor that is one, with the factor's value after it."""
    for place, factor in enumerate(factors):
        ways: list[tuple[Change, int | None]] = [("SET", value) for value in _GRID]
        if factor < NEAR_TOP:
            ways.append(("INC", None))
        if factor > NEAR_BOTTOM:
            ways.append(("DEC", None))
        for change, value in ways:
            mutation = mutate(factor, change, value)
            if mutation is not None:
                yield Effect(place, change, value, ""), mutation.value


def _predict(
    model: LinearModel, logits: Sequence[int], chosen: int, before: int, after: int, effect: Effect
) -> Prediction:
    place, moved = effect.factor, after - before
    changed = [logit + row[place] * moved for logit, row in zip(logits, model.weights, strict=True)]
    choice = best(changed)
    predicted = Effect(place, effect.change, effect.value, model.actions[choice])
    return Prediction(predicted, choice != chosen, changed[choice])
