"""What isolation adds to the start of a local program, means by means, side by side.

`python -m tests.benchmarks.isolated_starts [ROUNDS]`. The means take turns, and each start is
compared with the unisolated one of its round: a busy machine disturbs both. Processor time within
namespaces is not the runner's to see; there only the clock counts.
"""

import os
import statistics
import sys
import tempfile
import time

from tests.benchmarks.figures import processor_seconds, sizes
from theatre.oracles.isolation.means import REFUSED, Reach, find_isolation
from theatre.oracles.limited_process import ProcessLimits, construct_environment, start_limited

REFUSED_FOR = {
    "none": "namespaces,landlock,other-user",
    "landlock": "namespaces,other-user",
    "namespaces": "",
}
"""Means → what is refused, so that it is taken."""
MILLISECONDS = 1000


def started() -> tuple[float, float]:
    """Start an interpreter that does nothing; return seconds by the clock and of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        before, began = processor_seconds(), time.perf_counter()
        start = start_limited(
            [sys.executable, "-I", "-S", "-c", "pass"],
            folder=folder,
            environment=construct_environment("0" * 64),
            limits=ProcessLimits(),
            reach=Reach(),
        )
        start.process.wait()
        seconds = time.perf_counter() - began, processor_seconds() - before
        start.close_pipes()
    return seconds


def main(rounds: int) -> None:
    """Print what each means adds to a start, the median of `rounds`."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for means, refused in REFUSED_FOR.items():
        os.environ[REFUSED] = refused
        if find_isolation(network=False) == means:
            taken[means] = []
            started()
    for _ in range(rounds):
        for means, measured in taken.items():
            os.environ[REFUSED] = REFUSED_FOR[means]
            measured.append(started())
    for means, measured in taken.items():
        pairs = zip(measured, taken["none"], strict=True)
        added = [(clock - plain[0], used - plain[1]) for (clock, used), plain in pairs]
        clock, used = (MILLISECONDS * statistics.median(one) for one in zip(*added, strict=True))
        processor = "" if means == "namespaces" else f"  processor {used:.1f} ms"
        print(f"a start, {means}  added: clock {clock:.1f} ms{processor}")  # noqa: T201


if __name__ == "__main__":
    main(*sizes(30))
