"""Worlds that are not: a state with one variable changed, for the P5' of the interface `full`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from theatre.axion.env.state import GridState, distance

FULL_ENERGY = 100
_LEAST, _QUARTER = 5, 4
_WITHIN = 5
CLAIMABLE = (
    ("self.energy", "INC"),
    ("self.energy", "DEC"),
    ("objects.at", "UNSET"),
    ("hazards.at", "UNSET"),
    ("agents.pos", "UNSET"),
)
"""Variable and change of every claim that can be tested."""


def mutated_state(state: GridState, variable: str, change: str) -> GridState | None:
    """Return `state` after the change, or None where that is no change at all.

    Energy goes up or down by max(5, a quarter), within 0 and 100. UNSET takes away every
    object, hazard or agent within distance 5. KeyError for a pair that is not `CLAIMABLE`.
    """
    other = _CHANGES[variable, change](state)
    return None if other == state else other


def _with_energy(state: GridState, sign: int) -> GridState:
    energy = state.self.energy
    changed = energy + sign * max(_LEAST, energy // _QUARTER)
    return replace(state, self=replace(state.self, energy=min(FULL_ENERGY, max(0, changed))))


def _without_objects(state: GridState) -> GridState:
    at = state.self.at
    return replace(state, objects=tuple(x for x in state.objects if distance(x.at, at) > _WITHIN))


def _without_hazards(state: GridState) -> GridState:
    at = state.self.at
    return replace(state, hazards=tuple(x for x in state.hazards if distance(x.at, at) > _WITHIN))


def _without_agents(state: GridState) -> GridState:
    at = state.self.at
    return replace(state, agents=tuple(x for x in state.agents if distance(x.at, at) > _WITHIN))


_CHANGES: dict[tuple[str, str], Callable[[GridState], GridState]] = {
    ("self.energy", "INC"): lambda state: _with_energy(state, 1),
    ("self.energy", "DEC"): lambda state: _with_energy(state, -1),
    ("objects.at", "UNSET"): _without_objects,
    ("hazards.at", "UNSET"): _without_hazards,
    ("agents.pos", "UNSET"): _without_agents,
}
