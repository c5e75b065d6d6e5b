"""The interface `mci_latent`: factors are a projection of the state that anybody can recompute.

`v1_basic_k8` has no direction in it: a linear policy over it alone cannot find its way. For
agents that commit to one model for a whole episode there is `v2_dir_k16`.
"""

from collections.abc import Iterable

from theatre.axion.env.metrics_oracle import Terrain, careful_costs, walls_near, within_steps
from theatre.axion.env.normalize_state import DIRECTIONS, Cell, GridState, distance, neighbour
from theatre.axion.interfaces.base import K8, K16, Interface, Mode

MCI_LATENT = Interface(Mode.MCI_LATENT, K8, "v1_basic_k8")
MCI_LATENT_K16 = Interface(Mode.MCI_LATENT, K16, "v2_dir_k16")

_FULL_ENERGY, _FULL_INVENTORY, _FAR = 100, 10, 10
_STEPS, _STEP_CELLS, _BALL_CELLS = 3, 64, 25
_DECIMALS = 8
_UNKNOWN = 0.5


def factors_of(state: GridState, projection: str) -> list[float]:
    """Return the factors of `state`, each in [0, 1] with at most eight decimals.

    KeyError for a projection that there is not.
    """
    return _PROJECTIONS[projection](state)


def _k8(state: GridState) -> list[float]:
    at = state.self.at
    hazard = _nearest(at, (one.at for one in state.hazards))
    factors = [
        state.self.energy / _FULL_ENERGY,
        len(state.self.inventory) / _FULL_INVENTORY,
        hazard / _FAR,
        float(hazard <= 1),
        _nearest(at, (one.at for one in state.objects)) / _FAR,
        _nearest(at, (one.at for one in state.agents if one.alive)) / _FAR,
        within_steps(state, _STEPS) / _STEP_CELLS,
        walls_near(state) / _BALL_CELLS,
    ]
    return [round(min(1.0, factor), _DECIMALS) for factor in factors]


def _k16(state: GridState) -> list[float]:
    """Return k8, then for N, S, E, W: progress to the nearest object; then safety likewise."""
    goals = frozenset(one.at for one in state.objects)
    costs = careful_costs(Terrain.of(state), goals) if goals else {}
    here = costs.get(state.self.at)
    beside = [neighbour(state.self.at, direction) for direction in DIRECTIONS]
    progress = [
        _UNKNOWN if here is None else float(cell in costs and costs[cell] < here) for cell in beside
    ]
    return [*_k8(state), *progress, *(_safety(state, cell) for cell in beside)]


def _safety(state: GridState, cell: Cell) -> float:
    if not state.is_free(cell) or cell in state.burning:
        return 0.0
    return 1.0 if _nearest(cell, state.burning) > 1 else _UNKNOWN


def _nearest(at: Cell, others: Iterable[Cell]) -> int:
    """Return the distance to the nearest of `others`; as far as it counts where there is none."""
    return min((distance(at, other) for other in others), default=_FAR)


_PROJECTIONS = {"v1_basic_k8": _k8, "v2_dir_k16": _k16}
