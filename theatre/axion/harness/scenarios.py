"""The four scenarios on a grid of 12 by 12, each drawn from its seed alone."""

from collections.abc import Callable

from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import Draws, derived_secret
from theatre.axion.env.metrics_oracle import Terrain, plain_ways
from theatre.axion.env.normalize_state import Cell, Entity, GridState, Hazard, Thing, distance

SIDE = 12
START_ENERGY = 100
LAVA_SEVERITY = 30
_WALLS = 8
_SEED_CHARACTERS = 16
_CELLS = [(x, y) for y in range(SIDE) for x in range(SIDE)]
_CLUTTER_KINDS = ("agent", "object", "hazard")


class _Draft:
    """A grid that is being drawn: what is on it, and a cell for what comes next."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._taken: set[Cell] = set()
        self.me: Cell = self.place(lambda cell: min(cell) >= 2 and max(cell) < SIDE - 2)  # noqa: PLR2004 - two from the edge
        self.walls: list[Cell] = []
        self.agents: list[Entity] = []
        self.objects: list[Thing] = []
        self.hazards: list[Hazard] = []

    def place(self, fits: Callable[[Cell], bool]) -> Cell:
        """Return a drawn free cell that fits; any free one where none does."""
        free = [cell for cell in _CELLS if cell not in self._taken]
        cells = [cell for cell in free if fits(cell)] or free
        cell = cells[self._draws.below(len(cells))]
        self._taken.add(cell)
        return cell

    def near(self, centre: Cell, low: int, high: int) -> Cell:
        """Return a drawn free cell at a distance from `centre` of `low` to `high`."""
        return self.place(lambda cell: low <= distance(cell, centre) <= high)

    def add_agent(self, at: Cell) -> None:
        number = len(self.agents) + 1
        self.agents.append(Entity(id=f"agent_{number}", at=at, energy=START_ENERGY))

    def add_object(self, kind: str, at: Cell) -> None:
        self.objects.append(Thing(id=f"{kind}_{len(self.objects) + 1}", kind=kind, at=at))

    def add_lava(self, at: Cell) -> None:
        number = len(self.hazards) + 1
        lava = Hazard(id=f"lava_{number}", kind="lava", at=at, severity=LAVA_SEVERITY)
        self.hazards.append(lava)

    def add_clutter(self, count: int) -> None:
        """Add `count` more agents, objects and hazards in turn, none next to the start."""
        for number in range(count):
            at = self.place(lambda cell: distance(cell, self.me) > 1)
            kind = _CLUTTER_KINDS[number % len(_CLUTTER_KINDS)]
            if kind == "agent":
                self.add_agent(at)
            elif kind == "object":
                self.add_object("gem", at)
            else:
                self.add_lava(at)

    def add_walls(self, count: int) -> None:
        """Add walls one by one; one that would cut an object off is left out."""
        for _ in range(count):
            at = self.place(lambda cell: distance(cell, self.me) > 1)
            self.walls.append(at)
            if not self._all_within_reach():
                self.walls.remove(at)

    def _all_within_reach(self) -> bool:
        terrain = Terrain(
            SIDE,
            SIDE,
            frozenset(self.walls),
            frozenset(),
            frozenset(agent.at for agent in self.agents),
        )
        ways = plain_ways(terrain, self.me)
        return all(thing.at in ways for thing in self.objects)


def _basic(draft: _Draft) -> None:
    draft.add_object("coin", draft.near(draft.me, 2, 5))
    draft.add_agent(draft.near(draft.me, 6, 2 * SIDE))


def _hazard(draft: _Draft) -> None:
    """Put lava on both sides of the straight way to a medkit: a corridor one cell wide."""
    x, y = draft.me
    way = 1 if x < SIDE // 2 else -1
    corridor = x + 2 * way
    draft.add_lava(draft.place(lambda cell: cell == (corridor, y - 1)))
    draft.add_lava(draft.place(lambda cell: cell == (corridor, y + 1)))
    beyond = [(x + (3 + step) * way, y) for step in range(2)]
    draft.add_object("medkit", draft.place(lambda cell: cell in beyond))


def _resource(draft: _Draft) -> None:
    draft.add_object("coin", draft.near(draft.me, 2, 5))
    gem = draft.near(draft.me, 3, 7)
    draft.add_object("gem", gem)
    draft.add_object("food", draft.near(draft.me, 3, 8))
    draft.add_agent(draft.near(gem, 1, 2))


def _social(draft: _Draft) -> None:
    draft.add_agent(draft.near(draft.me, 2, 3))
    second = draft.near(draft.me, 2, 3)
    draft.add_agent(second)
    draft.add_lava(draft.near(second, 1, 1))
    draft.add_object("coin", draft.near(draft.me, 3, 6))


_TEMPLATES = {"basic": _basic, "hazard": _hazard, "resource": _resource, "social": _social}
SCENARIOS = tuple(_TEMPLATES)


def scenario(name: str, seed: bytes, *, clutter: int = 0) -> GridState:
    """Return the world of scenario `name`, drawn from `seed`, at tick 0.

    `clutter` adds so many agents, objects and hazards in turn. Raises UnknownNameError.
    """
    if name not in _TEMPLATES:
        expected = ", ".join(SCENARIOS)
        raise UnknownNameError(f"expected a scenario ({expected}), got {name!r:.40}")
    draft = _Draft(Draws(derived_secret("scenario", name, key=seed)))
    _TEMPLATES[name](draft)
    draft.add_clutter(clutter)
    draft.add_walls(_WALLS)
    return GridState(
        tick=0,
        width=SIDE,
        height=SIDE,
        walls=frozenset(draft.walls),
        self=Entity(id="self", at=draft.me, energy=START_ENERGY),
        agents=tuple(draft.agents),
        objects=tuple(draft.objects),
        hazards=tuple(draft.hazards),
        tools=(),
        rng_seed=seed.hex()[:_SEED_CHARACTERS],
    )
