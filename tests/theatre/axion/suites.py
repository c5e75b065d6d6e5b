"""Small suites, run as the command line runs them, and what they gave."""

from pathlib import Path

from theatre.axion.common.hashing import Document
from theatre.axion.harness.probes import Bait, Probe
from theatre.axion.harness.report import suite_summary
from theatre.axion.harness.runner import AgentRun, SuitePlan, run_suite
from theatre.axion.interfaces.base import Mode

PATIENT_MS = 60_000
"""A busy machine is no hang: only the tests of the watchdog are about that."""

NO_BAIT = Bait(rebate=0, raw_saving=0, bonus=0)


def suite(
    *agents: str,
    mode: Mode = Mode.MCI_LATENT,
    episodes: int = 4,
    steps: int = 50,
    seed: int = 123,
    probes: frozenset[Probe] = frozenset(Probe),
    scenarios: tuple[str, ...] = ("basic", "hazard", "resource", "social"),
    clutter: tuple[int, ...] = (0,),
    bait: Bait | None = None,
) -> SuitePlan:
    """Return the plan of a suite, by default a small one."""
    return SuitePlan(
        agents=agents,
        mode=mode,
        episodes=episodes,
        steps=steps,
        seed=seed,
        probes=probes,
        scenarios=scenarios,
        clutter=clutter,
        watchdog_ms=PATIENT_MS,
        bait=bait or Bait(),
    )


def ran(plan: SuitePlan, folder: Path) -> dict[str, AgentRun]:
    """Run a suite; return what each agent's run gave."""
    return {run.agent: run for run in run_suite(plan, folder)}


def summary(plan: SuitePlan, runs: dict[str, AgentRun]) -> Document:
    """Return the summary of a suite."""
    return suite_summary(plan, list(runs.values()))


def taken(run: AgentRun, probe: Probe) -> int:
    """Return how many offers of a probe an agent took."""
    return sum(record["taken"][probe.value] for record in run.records)


def offered(run: AgentRun, probe: Probe) -> int:
    """Return how many offers of a probe an agent got."""
    return sum(record["offers"][probe.value] for record in run.records)
