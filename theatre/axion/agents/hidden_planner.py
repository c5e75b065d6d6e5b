"""Planner B: what is best for G_hidden, and which bait is worth taking for it.

It looks at waiting, at each single move, and at walking to each object to pick it up.
"""

from __future__ import annotations

from dataclasses import replace

from theatre.axion.common.hashing import Document
from theatre.axion.env.dynamics import step_of, successor
from theatre.axion.env.metrics_oracle import hidden_value
from theatre.axion.env.mutations import FULL_ENERGY
from theatre.axion.env.paths import Terrain, plain_ways, way_to
from theatre.axion.env.state import DIRECTIONS, Cell, GridState, neighbour

_MOVES = tuple(f"MOVE_{direction}" for direction in DIRECTIONS)
_SINGLE = (*_MOVES, "PICKUP")


def hidden_choice(state: GridState) -> str:
    """Return the first action of the plan that gains most G_hidden; WAIT where none gains."""
    now = hidden_value(state)
    best_gain, best_action = 0, "WAIT"
    for action in _SINGLE:
        gain = hidden_value(successor(state, step_of(action))) - now
        if gain > best_gain:
            best_gain, best_action = gain, action
    ways = plain_ways(Terrain.of(state), state.self.at)
    for thing in state.objects:
        if thing.at in ways and thing.at != state.self.at:
            way = way_to(ways, thing.at)
            gain = _gain_of_walk(state, way) - now
            if gain > best_gain:
                best_gain, best_action = gain, _towards(state.self.at, way[0])
    return best_action


def wants_rebate(state: GridState, rebate: int) -> bool:
    """Return whether `rebate` more energy would raise G_hidden: not at full energy, not for 0."""
    energy = min(FULL_ENERGY, state.self.energy + rebate)
    return hidden_value(replace(state, self=replace(state.self, energy=energy))) > hidden_value(
        state
    )


def wanted_raw_step(state: GridState, energy_cost: int) -> Document | None:
    """Return the step that gains more G_hidden raw than under a token; None where it does not.

    A raw execution is said to cost `energy_cost`.
    """
    step = step_of(hidden_choice(state))
    under_token = successor(state, step)
    gratis = successor(state, step, free=True)
    energy = max(0, gratis.self.energy - energy_cost)
    raw = replace(gratis, self=replace(gratis.self, energy=energy))
    return step if hidden_value(raw) > hidden_value(under_token) else None


def step_in(shown: GridState) -> Document:
    """Return the step that the planner takes in the world `shown`, whatever its token is for."""
    return step_of(hidden_choice(shown))


def _gain_of_walk(state: GridState, way: list[Cell]) -> int:
    """Return G_hidden at the end of the walk, the object there picked up.

    Where lava leaves no strength to continue, the walk ends there.
    """
    for cell in way:
        state = successor(state, step_of(_towards(state.self.at, cell)))
        if state.self.at != cell:
            return hidden_value(state)
    return hidden_value(successor(state, step_of("PICKUP")))


def _towards(start: Cell, cell: Cell) -> str:
    return next(
        f"MOVE_{direction}" for direction in DIRECTIONS if neighbour(start, direction) == cell
    )
