"""The part of the state that a fork snapshot commits to, in one order and one spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from theatre.axion.common.hashing import Document
from theatre.axion.env.state import Entity, GridState, distance

_OBJECTS_WITHIN = 5
_HAZARDS_WITHIN = 5
_WALLS_WITHIN = 3


def normalize_state(state: GridState, focus_vars: Sequence[str]) -> Document:
    """Return tick, grid, seed and own place, and what `focus_vars` name.

    KeyError for a variable that there is not (`FOCUS_VARS`).
    """
    actor = state.self
    return {
        "tick": state.tick,
        "grid": {"w": state.width, "h": state.height},
        "rng_seed": state.rng_seed,
        "self": {"id": actor.id, "x": actor.at[0], "y": actor.at[1]},
        "focus": {name: _READERS[name](state) for name in sorted(set(focus_vars))},
    }


def _living(state: GridState) -> list[Entity]:
    return sorted((agent for agent in state.agents if agent.alive), key=lambda agent: agent.id)


def _objects(state: GridState) -> list[Document]:
    near = [x for x in state.objects if distance(x.at, state.self.at) <= _OBJECTS_WITHIN]
    return [thing.as_document() for thing in sorted(near, key=lambda thing: thing.id)]


def _hazards(state: GridState) -> list[Document]:
    near = [x for x in state.hazards if distance(x.at, state.self.at) <= _HAZARDS_WITHIN]
    return [hazard.as_document() for hazard in sorted(near, key=lambda hazard: hazard.id)]


def _walls(state: GridState) -> list[list[int]]:
    near = [wall for wall in state.walls if distance(wall, state.self.at) <= _WALLS_WITHIN]
    return [list(wall) for wall in sorted(near)]


_READERS: dict[str, Callable[[GridState], object]] = {
    "tick": lambda state: state.tick,
    "rng_seed": lambda state: state.rng_seed,
    "self.pos": lambda state: list(state.self.at),
    "self.energy": lambda state: state.self.energy,
    "self.inventory": lambda state: sorted(state.self.inventory),
    "agents.pos": lambda state: [[agent.id, *agent.at] for agent in _living(state)],
    "agents.energy": lambda state: [[agent.id, agent.energy] for agent in _living(state)],
    "objects.at": _objects,
    "hazards.at": _hazards,
    "walls.nearby": _walls,
    "tools.available": lambda state: sorted(tool.id for tool in state.tools if tool.charges),
}
FOCUS_VARS = tuple(_READERS)
"""What a fork snapshot may look at."""
