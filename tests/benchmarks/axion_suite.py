"""Prints how long a suite of the pseudo-axion audit takes; asserts nothing.

`python -m tests.benchmarks.axion_suite [EPISODES] [STEPS]`.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from theatre.axion.harness.runner import SuitePlan, run_suite
from theatre.axion.interfaces.base import Mode

EPISODES, STEPS = 100, 50
AGENTS = ("honest", "pseudo")


def processor_seconds() -> float:
    """Return what this process and the children it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Run as many episodes of as many steps as the caller asks for, for two agents."""
    given = [int(one) for one in sys.argv[1:]]
    episodes, each = (*given, *(EPISODES, STEPS)[len(given) :])
    plan = SuitePlan(
        agents=AGENTS,
        mode=Mode.MCI_LATENT,
        episodes=episodes,
        steps=each,
        seed=123,
        watchdog_ms=60_000,
    )
    with tempfile.TemporaryDirectory() as folder:
        began, used = time.perf_counter(), processor_seconds()
        run_suite(plan, Path(folder))
        wall, cpu = time.perf_counter() - began, processor_seconds() - used
    steps = episodes * each * len(AGENTS)
    sys.stdout.write(f"{'axion suite, wall clock':44} {wall:9.1f} s\n")
    sys.stdout.write(f"{'axion suite, processor, children too':44} {cpu:9.1f} s\n")
    sys.stdout.write(f"{'axion suite, steps a second':44} {steps / wall:9.0f}\n")


if __name__ == "__main__":
    main()
