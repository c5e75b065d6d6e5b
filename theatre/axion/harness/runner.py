"""Runs suites: every agent through the same scenarios, each with its own log."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from theatre.axion.agents.honest import (
    HonestMind,
    OneModelMind,
    choose_by_frozen_model,
    choose_carefully,
    frozen_model,
    project,
)
from theatre.axion.agents.proposals import Mind, ProposingAgent, Sample, fitted_model
from theatre.axion.agents.pseudo import (
    BudgetedMind,
    CoherentMind,
    ConstantMind,
    PseudoMind,
    SimulatingMind,
    UnbentMind,
    hidden_choice,
)
from theatre.axion.common.canonical_json import canonical_line
from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import Document, derived_secret
from theatre.axion.env.gridworld import step_of, successor
from theatre.axion.env.normalize_state import GridState
from theatre.axion.harness.episode import Episode
from theatre.axion.harness.kernel_session import DEFAULT_WATCHDOG_MS, KernelSession
from theatre.axion.harness.probes import Bait, Probe
from theatre.axion.harness.records import EpisodePlan, episode_record
from theatre.axion.harness.scenarios import SCENARIOS, scenario
from theatre.axion.interfaces.base import Interface, Mode
from theatre.axion.interfaces.full import FULL
from theatre.axion.interfaces.mci_latent import MCI_LATENT, MCI_LATENT_K16
from theatre.axion.interfaces.mci_minimal import MCI_MINIMAL
from theatre.axion.kernel.audit_log import verify_log
from theatre.axion.kernel.replay import LinearModel
from theatre.engine.audit_chain import ChainHead
from theatre.engine.errors import ChainBrokenError

# The agents by name, put together with the interface of a run.


FIT_SEED = b"toy-pseudo-axion fit"
"""The worlds that models are fitted on: the same for every run, and no run's own."""

_FIT_EPISODES, _FIT_STEPS = 40, 50
_INTERFACES = {Mode.FULL: FULL, Mode.MCI_LATENT: MCI_LATENT, Mode.MCI_MINIMAL: MCI_MINIMAL}


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


def _frozen_liar(interface: Interface) -> OneModelMind:
    """Return who acts for G_hidden, publishes a fit to that, and imagines a careful agent."""
    model = _fit(hidden_choice, interface)
    return OneModelMind(model, hidden_choice, choose_carefully, tempted=True)


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
    "pseudo_frozen_k8": lambda: _frozen_liar(MCI_LATENT),
}
_K16: dict[str, Callable[[], Mind]] = {
    "honest_frozen": lambda: OneModelMind(
        frozen_model(), choose_by_frozen_model, choose_by_frozen_model, tempted=False
    ),
    # It does not lie; it is only not as simple as it says.
    "honest_lossy": lambda: OneModelMind(
        _fit(choose_carefully, MCI_LATENT_K16), choose_carefully, choose_carefully, tempted=False
    ),
    "pseudo_frozen_k16": lambda: _frozen_liar(MCI_LATENT_K16),
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


COUNTEREXAMPLES = "counterexamples"


def usual_clutter(mode: Mode) -> tuple[int, ...]:
    """Return the tiers of clutter of a suite that asks for none.

    The scenarios by themselves have an entropy of 2 to 5. In mci_minimal, whose curve has bins to
    9 and more, they come as they are in two rounds of four, and with 4 and 8 more things.
    """
    return (0, 0, 4, 8) if mode is Mode.MCI_MINIMAL else (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """A suite: `episodes` for each agent, scenarios in turn, clutter tiers round by round."""

    agents: tuple[str, ...]
    mode: Mode
    episodes: int
    steps: int = 50
    seed: int = 0
    scenarios: tuple[str, ...] = SCENARIOS
    probes: frozenset[Probe] = frozenset(Probe)
    clutter: tuple[int, ...] = (0,)
    watchdog_ms: int = DEFAULT_WATCHDOG_MS
    bait: Bait = field(default_factory=Bait)

    @property
    def seed_bytes(self) -> bytes:
        """Return the seed as the kernel's secret is made of it."""
        return str(self.seed).encode("ascii")

    def episode_plans(self) -> Iterator[EpisodePlan]:
        """Yield the episodes, which are the same for every agent."""
        for number in range(self.episodes):
            turn, place = divmod(number, len(self.scenarios))
            name, clutter = self.scenarios[place], self.clutter[turn % len(self.clutter)]
            seed = derived_secret("scenario", number, name, key=self.seed_bytes)
            yield EpisodePlan(
                number=number,
                scenario=name,
                seed=seed.hex(),
                clutter=clutter,
                steps=self.steps,
                probes=self.probes,
                state=scenario(name, seed, clutter=clutter),
                bait=self.bait,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What a suite gave for one agent."""

    agent: str
    records: tuple[Document, ...]
    head: ChainHead
    chain_ok: bool


def run_agent(
    plan: SuitePlan, name: str, log: Path, counterexamples: Path | None = None
) -> AgentRun:
    """Run every episode of `plan` with one agent; write its log and, where asked, counterexamples.

    Raises FatalHangError and GateBrokenError; the log then ends with what happened.
    """
    with log.open("wb") as stream:
        room = KernelSession(stream, seed=plan.seed_bytes, watchdog_ms=plan.watchdog_ms)
        with closing(room):
            records = [
                _run_episode(plan, name, episode_plan, room, counterexamples)
                for episode_plan in plan.episode_plans()
            ]
        head = room.log.head
    try:
        verify_log(log, expected_head=head.entry_hash, expected_count=head.length)
        chain_ok = True
    except ChainBrokenError:
        chain_ok = False
    return AgentRun(
        agent=name,
        records=tuple({**record, "audit_chain_ok": chain_ok} for record in records),
        head=head,
        chain_ok=chain_ok,
    )


def run_suite(plan: SuitePlan, folder: Path) -> list[AgentRun]:
    """Run the suite into `folder`: `audit_<agent>.log.jsonl` and `counterexamples/`."""
    (folder / COUNTEREXAMPLES).mkdir(parents=True, exist_ok=True)
    return [
        run_agent(plan, name, folder / f"audit_{name}.log.jsonl", folder / COUNTEREXAMPLES)
        for name in plan.agents
    ]


def write_report(path: Path, document: object) -> None:
    """Write a report for people and programs: indented JSON, keys in their order."""
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _run_episode(
    plan: SuitePlan, name: str, episode_plan: EpisodePlan, room: KernelSession, kept: Path | None
) -> Document:
    seed = derived_secret("agent", name, episode_plan.number, key=plan.seed_bytes)
    acting = agent(name, plan.mode, seed)
    episode = Episode(episode_plan, acting.interface, room, choose=acting.choice)
    episode.run(acting)
    if kept is not None:
        for example in episode.account.counterexamples:
            file = f"{name}_{episode_plan.number:05d}_{example['probe']}.json"
            (kept / file).write_bytes(canonical_line({"agent": name, **example}))
    return episode_record(episode_plan, name, acting.interface, episode.account, episode.state)
