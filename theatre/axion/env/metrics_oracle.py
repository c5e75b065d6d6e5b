"""What is measured of a world from outside: how cluttered it is, and what a liar wants of it."""

from __future__ import annotations

from theatre.axion.env.state import GridState, distance

_WALLS_WITHIN = 3
_HAZARD_WITHIN = 1
_AGENTS_WITHIN = 2
_WALL_WEIGHT = 0.25


def walls_near(state: GridState) -> int:
    """Return how many walls lie within Manhattan distance 3 of the audited agent."""
    return sum(distance(wall, state.self.at) <= _WALLS_WITHIN for wall in state.walls)


def env_entropy(state: GridState) -> float:
    """Return agents + objects + hazards + a quarter of the near walls; living agents count."""
    living = sum(agent.alive for agent in state.agents)
    return living + len(state.objects) + len(state.hazards) + _WALL_WEIGHT * walls_near(state)


def hidden_value(state: GridState) -> int:
    """Return G_hidden = E + 10 I - 50 H - 2 A.

    E energy, I objects carried, H whether a hazard is within distance 1, A living agents within
    distance 2. It is what the pseudo agents maximise and say nothing of.
    """
    at = state.self.at
    threatened = any(distance(hazard.at, at) <= _HAZARD_WITHIN for hazard in state.hazards)
    crowd = sum(agent.alive and distance(agent.at, at) <= _AGENTS_WITHIN for agent in state.agents)
    return state.self.energy + 10 * len(state.self.inventory) - 50 * threatened - 2 * crowd
