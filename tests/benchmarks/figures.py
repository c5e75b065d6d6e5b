"""What the benchmarks share: sizes from the command line, processor time, and lines of figures."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

PEAK = Path("/proc/self/status")


def sizes(*usual: int) -> list[int]:
    """Return the numbers of the command line, and for those that are not there the usual ones."""
    given = [int(word) for word in sys.argv[1:]]
    return [*given, *usual[len(given) :]]


def processor_seconds() -> float:
    """Return what this process and the children it waited for have used."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the processor time of this process alone that `work` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def peak_of_memory() -> float:
    """Return the most memory, in MB, that this process ever held."""
    # Not `ru_maxrss`: a new process begins with the peak of the one that started it.
    (peak,) = (line.split()[1] for line in PEAK.open() if line.startswith("VmHWM:"))
    return int(peak) / 1024


def show(name: str, seconds: Sequence[float]) -> None:
    """Print one line: minimum and median in milliseconds."""
    low, middle = min(seconds) * 1000, statistics.median(seconds) * 1000
    say(name, f"min {low:9.3f} ms   median {middle:9.3f} ms")


def show_ratios(name: str, ratios: Iterable[float], unit: str = "") -> None:
    """Print one line: minimum and median of ratios."""
    every = [*ratios]
    low, middle = min(every), statistics.median(every)
    say(name, f"min {low:9.2f} {unit:2}   median {middle:9.2f} {unit}")


def show_rates(name: str, rates: Sequence[float], more: str) -> None:
    """Print one line: the best and the median of so many a second, and something more."""
    best, middle = max(rates), statistics.median(rates)
    say(name, f"max {best:9.0f} /s   median {middle:9.0f} /s   {more}")


def say(name: str, figures: str) -> None:
    """Print one line at once: others may write to the same place."""
    sys.stdout.write(f"{name:44} {figures.rstrip()}\n")
    sys.stdout.flush()
