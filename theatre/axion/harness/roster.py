"""The agents by name, put together with the interface of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from theatre.axion.agents.fitting import Sample, fitted_model
from theatre.axion.agents.hidden_planner import hidden_choice
from theatre.axion.agents.honest import (
    HonestFrozenMind,
    HonestMind,
    LossyMind,
    choose_carefully,
    project,
)
from theatre.axion.agents.proposals import Mind, ProposingAgent
from theatre.axion.agents.pseudo import (
    BudgetedMind,
    CoherentMind,
    ConstantMind,
    FrozenFitMind,
    PseudoMind,
    SimulatingMind,
    UnbentMind,
)
from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import derived_secret
from theatre.axion.env.dynamics import step_of, successor
from theatre.axion.env.state import GridState
from theatre.axion.harness.scenarios import SCENARIOS, scenario
from theatre.axion.interfaces.base import Interface, Mode
from theatre.axion.interfaces.full import FULL
from theatre.axion.interfaces.mci_latent import MCI_LATENT, MCI_LATENT_K16
from theatre.axion.interfaces.mci_minimal import MCI_MINIMAL
from theatre.axion.kernel.replay import LinearModel

FIT_SEED = b"toy-pseudo-axion fit"
"""The worlds that models are fitted on: the same for every run, and no run's own."""

_FIT_EPISODES, _FIT_STEPS = 40, 50
_INTERFACES = {
    Mode.FULL: FULL,
    Mode.MCI_LATENT: MCI_LATENT,
    Mode.MCI_MINIMAL: MCI_MINIMAL,
}


@cache
def _fit(choose: Callable[[GridState], str], interface: Interface) -> LinearModel:
    """Return the linear model that comes near to `choose`, seen over the factors of `interface`."""
    samples: list[Sample] = []
    for episode in range(_FIT_EPISODES):
        seed = derived_secret("fit", episode, key=FIT_SEED)
        state = scenario(SCENARIOS[episode % len(SCENARIOS)], seed)
        for _ in range(_FIT_STEPS):
            action = choose(state)
            samples.append((project(state, interface), action))
            state = successor(state, step_of(action))
    return fitted_model(samples)


_K8: dict[str, Callable[[], Mind]] = {
    "honest": HonestMind,
    "pseudo": PseudoMind,
    "pseudo_unbent": UnbentMind,
    "pseudo_constant": ConstantMind,
    "pseudo_coherent": CoherentMind,
    "pseudo_simulating": SimulatingMind,
    "pseudo_budgeted_1": lambda: BudgetedMind(1),
    "pseudo_budgeted_2": lambda: BudgetedMind(2),
    "pseudo_budgeted_4": lambda: BudgetedMind(4),
    "pseudo_budgeted_6": lambda: BudgetedMind(6),
    "pseudo_frozen_k8": lambda: FrozenFitMind(_fit(hidden_choice, MCI_LATENT)),
}
_K16: dict[str, Callable[[], Mind]] = {
    "honest_frozen": HonestFrozenMind,
    "honest_lossy": lambda: LossyMind(_fit(choose_carefully, MCI_LATENT_K16)),
    "pseudo_frozen_k16": lambda: FrozenFitMind(_fit(hidden_choice, MCI_LATENT_K16)),
}
AGENTS = (*_K8, *_K16)
"""Every name that `agent` knows; those that begin with `honest` do not lie."""


def agent(name: str, mode: Mode, seed: bytes) -> ProposingAgent:
    """Return the agent `name` for a run in `mode`, with randomness of its own from `seed`.

    Raises UnknownNameError for another name, and for an agent of 16 factors outside mci_latent.
    """
    if name in _K16 and mode is Mode.MCI_LATENT:
        return ProposingAgent(name, _K16[name](), MCI_LATENT_K16, seed)
    if name not in _K8:
        expected = ", ".join(AGENTS if mode is Mode.MCI_LATENT else _K8)
        raise UnknownNameError(f"expected an agent for {mode} ({expected}), got {name!r:.60}")
    return ProposingAgent(name, _K8[name](), _INTERFACES[mode], seed)
