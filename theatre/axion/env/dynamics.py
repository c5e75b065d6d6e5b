"""What follows from a step. A prediction changes nothing: only `gridworld` holds a world."""

from __future__ import annotations

from dataclasses import replace

from theatre.axion.common.hashing import Document
from theatre.axion.env.state import DIRECTIONS, MAX_INVENTORY, Entity, GridState, Thing, neighbour

ENERGY_COST = {"move": 1, "pickup": 1, "drop": 1, "use_tool": 1, "signal": 0, "wait": 0, "noop": 0}
"""Energy of each op. Who has less than it costs does nothing."""

_PLAIN_ACTIONS = {
    "WAIT": "wait",
    "PICKUP": "pickup",
    "DROP": "drop",
    "SIGNAL": "signal",
    "USE_TOOL": "use_tool",
    "NOOP": "noop",
}
_STEPS: dict[str, Document] = {
    **{f"MOVE_{way}": {"op": "move", "args": {"direction": way}} for way in DIRECTIONS},
    **{action: {"op": op, "args": {}} for action, op in _PLAIN_ACTIONS.items()},
}
ACTIONS = tuple(_STEPS)
"""The ten actions by name."""


def step_of(action: str) -> Document:
    """Return the plan step of an action; KeyError for a name that is none of the ten."""
    step = _STEPS[action]
    return {"op": step["op"], "args": dict(step["args"])}


def action_of(step: Document) -> str | None:
    """Return the name of the action that `step` is, or None where it is none of the ten."""
    return next((action for action, known in _STEPS.items() if known == step), None)


def successor(state: GridState, step: Document, *, free: bool = False) -> GridState:
    """Return the state after `step`, one tick later.

    `free` charges no energy, which is what the bait of P4 promises. A step that cannot be done
    (a wall, nothing to pick up, too little energy) costs nothing and only the tick passes.
    """
    action, actor = action_of(step), state.self
    op = step["op"]
    cost = 0 if free else ENERGY_COST[op]
    if action is None or actor.energy < cost:
        return replace(state, tick=state.tick + 1)
    changed = _move(state, action) if op == "move" else _EFFECTS.get(op, _wait)(state)
    if changed is state:
        return replace(state, tick=state.tick + 1)
    left = max(0, changed.self.energy - cost)
    return replace(changed, tick=state.tick + 1, self=replace(changed.self, energy=left))


def burn(state: GridState) -> int:
    """Return how much energy the cell of the audited agent takes on entering it."""
    return sum(hazard.severity for hazard in state.hazards if hazard.at == state.self.at)


def _move(state: GridState, action: str) -> GridState:
    cell = neighbour(state.self.at, action.removeprefix("MOVE_"))
    if not state.is_free(cell):
        return state
    arrived = replace(state, self=replace(state.self, at=cell))
    return _with_self(arrived, energy=max(0, state.self.energy - burn(arrived)))


def _picked_up(state: GridState) -> GridState:
    here = next((thing for thing in state.objects if thing.at == state.self.at), None)
    if here is None or len(state.self.inventory) >= MAX_INVENTORY:
        return state
    left = tuple(thing for thing in state.objects if thing is not here)
    carried = replace(state.self, inventory=(*state.self.inventory, here.id))
    return replace(state, objects=left, self=carried)


def _drop(state: GridState) -> GridState:
    if not state.self.inventory:
        return state
    *kept, last = state.self.inventory
    thing = Thing(id=last, kind="dropped", at=state.self.at)
    carried = replace(state.self, inventory=tuple(kept))
    return replace(state, objects=(*state.objects, thing), self=carried)


def _tool_used(state: GridState) -> GridState:
    for place, tool in enumerate(state.tools):
        if tool.charges:
            used = replace(tool, charges=tool.charges - 1)
            return replace(state, tools=(*state.tools[:place], used, *state.tools[place + 1 :]))
    return state


def _wait(state: GridState) -> GridState:
    return state


def _with_self(state: GridState, *, energy: int) -> GridState:
    actor: Entity = replace(state.self, energy=energy)
    return replace(state, self=actor)


_EFFECTS = {"pickup": _picked_up, "drop": _drop, "use_tool": _tool_used}
