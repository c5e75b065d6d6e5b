"""Prints what an episode over HTTP takes beside a bare loop of the same client; asserts nothing.

`python -m tests.benchmarks.http_run` measures processor time, then the peak of memory in
processes of their own; with `peak EPISODES` it is such a process.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import aiohttp

from tests.benchmarks.trivial_theatre import Mode, bodies, commit, construct, run

PEAK = Path("/proc/self/status")
EPISODES = 3_000
ROUNDS = 5
FEW, MANY = 5_000, 20_000
SERIAL, PARALLEL = 1, 16

MODES = (
    Mode(name="one after another", concurrency=SERIAL, sanitises=False),
    Mode(name="16 at a time", concurrency=PARALLEL, sanitises=False),
    Mode(name="16 at a time, sanitised", concurrency=PARALLEL, sanitises=True),
)


async def bare_loop(url: str, requests: Sequence[tuple[str, bytes]], workers: int) -> None:
    """Send the requests and read the answers, and nothing else."""
    async with aiohttp.ClientSession(
        headers={"Content-Type": "application/json"},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
    ) as session:
        waiting = iter(requests)

        async def work() -> None:
            for key, body in waiting:
                headers = {"Idempotency-Key": key}
                async with session.post(url, data=body, headers=headers) as response:
                    await response.read()

        await asyncio.gather(*(work() for _ in range(workers)))


def cpu_of(work: Callable[[], Coroutine[None, None, None]]) -> float:
    """Return the processor time that this process alone took for `work`, in seconds."""
    began = time.process_time()
    asyncio.run(work())
    return time.process_time() - began


def one_round(mode: Mode, url: str, home: Path) -> tuple[float, float]:
    """Return the processor time of a bare call and of an episode, one measured after the other."""
    store, theatre_id = commit(home, EPISODES, mode)
    requests = bodies(theatre_id, EPISODES)
    bare = cpu_of(lambda: bare_loop(url, requests, mode.concurrency))
    whole = cpu_of(lambda: run(store, theatre_id, url))
    return bare / EPISODES, whole / EPISODES


def show_processor_time(mode: Mode, url: str, home: Path) -> None:
    """Print what an episode of a whole run takes, and a call of the bare loop beside it."""
    rounds = [one_round(mode, url, home / f"{mode.name} {number}") for number in range(ROUNDS)]
    calls, episodes = zip(*rounds, strict=True)
    ratios = [episode / call for call, episode in rounds]
    show(f"episode, {mode.name}", episodes)
    show("  a bare call beside it", calls)
    sys.stdout.write(
        f"{'  the ratio':44} min {min(ratios):9.2f}      median {statistics.median(ratios):9.2f}\n"
    )


def show(name: str, seconds: Sequence[float]) -> None:
    """Print one line: minimum and median in milliseconds."""
    low, middle = min(seconds) * 1000, statistics.median(seconds) * 1000
    sys.stdout.write(f"{name:44} min {low:9.3f} ms   median {middle:9.3f} ms\n")


def peak_of(total: int, url: str, home: Path) -> None:
    """Print the most memory, in MB, that this process ever held for a run of `total` episodes."""
    store, theatre_id = commit(home / "peak", total, MODES[-1])
    asyncio.run(run(store, theatre_id, url))
    # Not `ru_maxrss`: a new process begins with the peak of the one that started it.
    (peak,) = (line.split()[1] for line in PEAK.open() if line.startswith("VmHWM:"))
    sys.stdout.write(f"{int(peak) / 1024:.1f}\n")


def show_memory() -> None:
    """Print the peaks of processes that do one run each."""
    peaks = {}
    for total in (FEW, MANY):
        command = [sys.executable, "-m", "tests.benchmarks.http_run", "peak", str(total)]
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        peaks[total] = float(finished.stdout)
        sys.stdout.write(f"{f'peak of memory, {total} episodes':44}     {peaks[total]:9.1f} MB\n")
    sys.stdout.write(f"{'  the difference':44}     {peaks[MANY] - peaks[FEW]:9.1f} MB\n")


def main() -> None:
    """Measure everything, or one peak."""
    with construct() as url, tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:2] == ["peak"]:
            peak_of(int(sys.argv[2]), url, Path(folder))
            return
        for mode in MODES:
            show_processor_time(mode, url, Path(folder))
    if PEAK.exists():
        show_memory()


if __name__ == "__main__":
    main()
