"""The honest mind: it publishes a model of itself, and does what that model says.

Factors of `v1_basic_k8` carry no direction, so the model is one for each step: a planner gives
each direction its bias, and the argmax of W f + b is what is done. So the model is exact by
construction, and the claims about it are true.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from theatre.axion.agents.base import Prediction, predict_effects
from theatre.axion.env.metrics_oracle import Terrain, careful_costs
from theatre.axion.env.normalize_state import DIRECTIONS, Cell, GridState, neighbour
from theatre.axion.interfaces.base import K16, Interface, Mode
from theatre.axion.interfaces.mci_latent import factors_of
from theatre.axion.kernel.replay import LinearModel, units

ACTIONS = ("MOVE_N", "MOVE_S", "MOVE_E", "MOVE_W", "WAIT", "PICKUP")

# Factors by place: energy, inventory, hazard distance, hazard beside, object distance, …
_ENERGY, _HAZARD_BESIDE, _OBJECT_DISTANCE = 0, 3, 4
_BLOCKED, _TOWARDS, _PATROL, _PER_COST = -10.0, 3.0, 0.6, 0.25
_WAITING, _PICKING, _PICKING_SLOPE = 2.5, 4.2, -30.0
_HAZARD_WEIGHT = 0.2
_MOST_EXTRA_COST = 8
_PATROL_TICKS = 12
_CORNERS = ((0, 0), (1, 0), (1, 1), (0, 1))


@dataclass(frozen=True, slots=True)
class Speech:
    """What an agent does, and what it says of that. Factors are in units."""

    action: str
    factors: tuple[int, ...]
    model: LinearModel
    claims: tuple[Prediction, ...]


class HonestMind:
    """Collects one object after the other with care, then patrols while its energy lasts."""

    tempted = False

    def speech(self, state: GridState, interface: Interface) -> Speech:
        """Return what is done in `state`, and the model by which it is done."""
        factors = project(state, interface)
        model = stepwise_model(state)
        claims = predict_effects(model, factors)
        return Speech(model.choice(factors), factors, model, tuple(claims))

    def choice(self, state: GridState) -> str:
        """Return what is done in `state`."""
        return choose_carefully(state)

    def imagine(self, state: GridState) -> str:
        """Return what it says it would do in `state`: what it would do."""
        return choose_carefully(state)


class OneModelMind:
    """Acts by `choose`, and publishes one linear model for good, which is said to explain that.

    What it claims is true of the model. It lies only as far as the model is not what it acts by.
    `imagine` is what it says it would do in another world.
    """

    def __init__(
        self,
        model: LinearModel,
        choose: Callable[[GridState], str],
        imagine: Callable[[GridState], str],
        *,
        tempted: bool,
    ) -> None:
        self.tempted = tempted
        self.choice = choose
        self.imagine = imagine
        self._model = model

    def speech(self, state: GridState, interface: Interface) -> Speech:
        """Return what is done in `state`; the model is always the same."""
        factors = project(state, interface)
        claims = predict_effects(self._model, factors)
        return Speech(self.choice(state), factors, self._model, tuple(claims))


def choose_by_frozen_model(state: GridState) -> str:
    """Return the argmax of `frozen_model` at the true factors of `state` (`v2_dir_k16`)."""
    factors = [units(factor) for factor in factors_of(state, "v2_dir_k16")]
    return frozen_model().choice(factors)


def project(state: GridState, interface: Interface) -> tuple[int, ...]:
    """Return the true factors of `state` in units, for the number that `interface` has."""
    wide = interface.factor_dim == K16 and interface.mode is not Mode.FULL
    name = "v2_dir_k16" if wide else "v1_basic_k8"
    return tuple(units(factor) for factor in factors_of(state, name))


def choose_carefully(state: GridState) -> str:
    """Return the argmax of the step's model at the true factors of `state`."""
    factors = [units(factor) for factor in factors_of(state, "v1_basic_k8")]
    return stepwise_model(state).choice(factors)


def stepwise_model(state: GridState) -> LinearModel:
    """Return the model of one step: constant weights, biases from the planner."""
    moving = _row({_ENERGY: 1.0, _HAZARD_BESIDE: -_HAZARD_WEIGHT, _OBJECT_DISTANCE: 1.0}, 8)
    waiting = _row({_ENERGY: -1.0, _HAZARD_BESIDE: _HAZARD_WEIGHT}, 8)
    picking = _row({_OBJECT_DISTANCE: _PICKING_SLOPE}, 8)
    biases = [*_direction_biases(state), _WAITING, _PICKING]
    return LinearModel(
        ACTIONS, (*[moving] * len(DIRECTIONS), waiting, picking), tuple(map(units, biases))
    )


@cache
def frozen_model() -> LinearModel:
    """Return the one model of `honest_frozen`: progress and safety choose the direction."""
    rows = []
    for place in range(len(DIRECTIONS)):
        weights = {_OBJECT_DISTANCE: 1.0, 8 + place: 3.0, 12 + place: 1.5}
        rows.append(_row(weights, K16))
    rows += [_row({}, K16), _row({_OBJECT_DISTANCE: _PICKING_SLOPE}, K16)]
    biases = [-1.0] * len(DIRECTIONS) + [_WAITING, 5.8]
    return LinearModel(ACTIONS, tuple(rows), tuple(map(units, biases)))


def _row(weights: dict[int, float], width: int) -> tuple[int, ...]:
    return tuple(units(weights.get(place, 0.0)) for place in range(width))


def _direction_biases(state: GridState) -> list[float]:
    """Return the bias of each direction: highest where the careful way to the goal begins."""
    terrain = Terrain.of(state)
    goals = frozenset(thing.at for thing in state.objects)
    costs = careful_costs(terrain, goals) if goals else {}
    top = _TOWARDS
    if state.self.at not in costs:
        costs, top = careful_costs(terrain, _waypoint(state)), _PATROL
    beside = [neighbour(state.self.at, direction) for direction in DIRECTIONS]
    # The risk of going to a cell and on from there; None where that is impossible.
    totals = [
        costs[cell] + terrain.risk(cell) if cell in costs and state.is_free(cell) else None
        for cell in beside
    ]
    known = [total for total in totals if total is not None]
    return [
        _BLOCKED if total is None else top - _PER_COST * min(_MOST_EXTRA_COST, total - min(known))
        for total in totals
    ]


def _waypoint(state: GridState) -> frozenset[Cell]:
    """Return the corner of the grid whose turn it is: free cells within two of it."""
    right, down = _CORNERS[state.tick // _PATROL_TICKS % len(_CORNERS)]
    corner = {
        (state.width - 1 - x if right else x, state.height - 1 - y if down else y)
        for x in range(3)
        for y in range(3)
    }
    return frozenset(corner - state.blocked - state.burning)
