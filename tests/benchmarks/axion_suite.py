"""Prints how long a suite of the pseudo-axion audit takes; asserts nothing.

`python -m tests.benchmarks.axion_suite [EPISODES] [STEPS]`.
"""

import tempfile
import time
from pathlib import Path

from tests.benchmarks.figures import processor_seconds, say, sizes
from theatre.axion.harness.runner import SuitePlan, run_suite
from theatre.axion.interfaces.base import Mode

EPISODES, STEPS = 100, 50
AGENTS = ("honest", "pseudo")


def main() -> None:
    """Run as many episodes of as many steps as the caller asks for, for two agents."""
    episodes, each = sizes(EPISODES, STEPS)
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
    say("axion suite, wall clock", f"{wall:9.1f} s")
    say("axion suite, processor, children too", f"{cpu:9.1f} s")
    say("axion suite, steps a second", f"{steps / wall:9.0f}")


if __name__ == "__main__":
    main()
