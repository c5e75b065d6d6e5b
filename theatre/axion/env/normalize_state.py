"""The part of the state that a fork snapshot commits to, in one order and one spelling."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theatre.axion.common.hashing import Document

# The state of a grid as a frozen value, and its document (`schemas/toy_env.json`).


Cell = tuple[int, int]
"""x, y; y grows southwards."""

DIRECTIONS: dict[str, Cell] = {"N": (0, -1), "S": (0, 1), "E": (1, 0), "W": (-1, 0)}
"""Unit steps, in the order in which every tie between directions is broken."""

MAX_INVENTORY = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """An agent of the grid: the one under audit, or a passive one."""

    id: str
    at: Cell
    energy: int
    inventory: tuple[str, ...] = ()
    alive: bool = True

    def as_document(self) -> Document:
        """Return the `toy_entity`."""
        return {
            "id": self.id,
            "x": self.at[0],
            "y": self.at[1],
            "energy": self.energy,
            "inventory": list(self.inventory),
            "status": {"alive": self.alive, "stunned": False},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that can be picked up."""

    id: str
    kind: str
    at: Cell

    def as_document(self) -> Document:
        """Return the `toy_object`."""
        return {"id": self.id, "kind": self.kind, "x": self.at[0], "y": self.at[1], "props": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Something that takes `severity` energy from an agent that enters it."""

    id: str
    kind: str
    at: Cell
    severity: int

    def as_document(self) -> Document:
        """Return the `toy_hazard`."""
        x, y = self.at
        return {"id": self.id, "kind": self.kind, "x": x, "y": y, "severity": self.severity}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something with charges that the audited agent carries."""

    id: str
    kind: str
    charges: int

    def as_document(self) -> Document:
        """Return the `toy_tool`."""
        return {"id": self.id, "kind": self.kind, "charges": self.charges}


@dataclass(frozen=True, slots=True, kw_only=True)
class GridState:
    """The whole world at one tick. Cells lie within 0 ≤ x < width, 0 ≤ y < height."""

    tick: int
    width: int
    height: int
    walls: frozenset[Cell]
    self: Entity
    agents: tuple[Entity, ...]
    objects: tuple[Thing, ...]
    hazards: tuple[Hazard, ...]
    tools: tuple[Tool, ...]
    rng_seed: str

    @property
    def blocked(self) -> frozenset[Cell]:
        """Return the cells that no agent can enter: walls, and living agents."""
        return self.walls | {agent.at for agent in self.agents if agent.alive}

    @property
    def burning(self) -> frozenset[Cell]:
        """Return the cells with a hazard."""
        return frozenset(hazard.at for hazard in self.hazards)

    def holds(self, cell: Cell) -> bool:
        """Return whether `cell` lies on the grid."""
        return 0 <= cell[0] < self.width and 0 <= cell[1] < self.height

    def is_free(self, cell: Cell) -> bool:
        """Return whether the audited agent could step on `cell`."""
        return self.holds(cell) and cell not in self.blocked

    def as_document(self) -> Document:
        """Return the `toy_env`; walls sorted, everything else in its order."""
        return {
            "tick": self.tick,
            "grid": {
                "w": self.width,
                "h": self.height,
                "walls": [{"x": x, "y": y} for x, y in sorted(self.walls)],
            },
            "self": self.self.as_document(),
            "agents": [agent.as_document() for agent in self.agents],
            "objects": [thing.as_document() for thing in self.objects],
            "hazards": [hazard.as_document() for hazard in self.hazards],
            "tools": [tool.as_document() for tool in self.tools],
            "rng_seed": self.rng_seed,
        }


def neighbour(cell: Cell, direction: str) -> Cell:
    """Return the cell one step from `cell` in `direction` (N, S, E, W)."""
    dx, dy = DIRECTIONS[direction]
    return cell[0] + dx, cell[1] + dy


def distance(one: Cell, other: Cell) -> int:
    """Return the Manhattan distance, the only one this package uses."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


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


def _near(state: GridState, things: Sequence[Thing | Hazard], within: int) -> list[Document]:
    near = [one for one in things if distance(one.at, state.self.at) <= within]
    return [one.as_document() for one in sorted(near, key=lambda one: one.id)]


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
    "objects.at": lambda state: _near(state, state.objects, _OBJECTS_WITHIN),
    "hazards.at": lambda state: _near(state, state.hazards, _HAZARDS_WITHIN),
    "walls.nearby": _walls,
    "tools.available": lambda state: sorted(tool.id for tool in state.tools if tool.charges),
}
FOCUS_VARS = tuple(_READERS)
"""What a fork snapshot may look at."""
