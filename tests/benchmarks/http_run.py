"""Prints what an episode over HTTP takes beside bare loops of calls; asserts nothing.

`python -m tests.benchmarks.http_run [EPISODES] [ROUNDS] [MANY]` measures processor time, then the
peak of memory for a quarter of MANY episodes and for MANY, in processes of their own; with
`peak EPISODES` it is such a process, with `unchecked EPISODES` one that leaves out the self-check.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any

from yarl import URL

from tests.benchmarks.figures import PEAK, peak_of_memory, say, seconds_of, show, show_ratios, sizes
from tests.benchmarks.trivial_theatre import Mode, adapter_for, commit, construct, requests_of, run
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import self_check
from theatre.oracles.http_client import Connection, HttpClient

EPISODES = 3_000
ROUNDS = 5
MANY = 20_000
SERIAL, PARALLEL = 1, 16

MODES = (
    Mode(name="one after another", concurrency=SERIAL, sanitises=False),
    Mode(name="16 at a time", concurrency=PARALLEL, sanitises=False),
    Mode(name="16 at a time, sanitised", concurrency=PARALLEL, sanitises=True),
)


async def client_loop(url: str, requests: Sequence[OracleInvocationRequest], workers: int) -> None:
    """Call with the client of a run, and do nothing else: encode, send, wait, read strictly."""
    async with contextlib.aclosing(adapter_for(url)) as adapter:

        async def call(request: OracleInvocationRequest) -> None:
            await adapter.invoke(request)

        await _share(requests, workers, call)


async def bytes_loop(url: str, requests: Sequence[OracleInvocationRequest], workers: int) -> None:
    """Send bytes and read bytes with the same client: the least that a call can cost."""
    async with contextlib.aclosing(HttpClient()) as client:

        async def call(request: OracleInvocationRequest) -> None:
            headers = {"Idempotency-Key": request.invocation_id}
            body = bodies[request.invocation_id]
            await client.ask("POST", URL(url), read=Connection.read, headers=headers, body=body)

        bodies = {one.invocation_id: canonical_bytes(one.as_document()) for one in requests}
        await _share(requests, workers, call)


async def _share(
    requests: Sequence[OracleInvocationRequest],
    workers: int,
    call: Callable[[OracleInvocationRequest], Awaitable[None]],
) -> None:
    waiting = iter(requests)

    async def work() -> None:
        for request in waiting:
            await call(request)

    await asyncio.gather(*(work() for _ in range(workers)))


LOOPS = {
    "a call of the run's client alone": client_loop,
    "a bare call, bytes out and in": bytes_loop,
}


def cpu_of(work: Callable[[], Coroutine[None, None, None]]) -> float:
    """Return the processor time that this process alone took for `work`, in seconds."""
    return seconds_of(lambda: asyncio.run(work()))


@contextlib.contextmanager
def check_replaced(check: Callable[..., CheckReport]) -> Iterator[None]:
    """Have runs call another function for the check of their drafts."""
    setattr(self_check, "check_bundle", check)  # noqa: B010 - it is imported there
    try:
        yield
    finally:
        setattr(self_check, "check_bundle", check_bundle)  # noqa: B010


def one_round(mode: Mode, url: str, home: Path, episodes: int) -> list[float]:
    """Return the processor time of an episode, its share of the self-check, and that of calls.

    One after another and in turns: with the check and without are the same run.
    """
    store, theatre_id = commit(home, episodes, mode)
    sent = requests_of(theatre_id, episodes)
    calls = [cpu_of(partial(loop, url, sent, mode.concurrency)) for loop in LOOPS.values()]
    checks: list[float] = []

    def timed(*arguments: Any, **named: Any) -> CheckReport:  # noqa: ANN401 - what it is given
        began = time.thread_time()
        report = check_bundle(*arguments, **named)
        checks.append(time.thread_time() - began)
        return report

    with check_replaced(timed):
        episode = cpu_of(lambda: run(store, theatre_id, url))
    (check,) = checks
    return [seconds / episodes for seconds in (episode, check, *calls)]


def show_processor_time(mode: Mode, url: str, home: Path, total: int, count: int) -> None:
    """Print what an episode of a whole run takes, and calls of bare loops beside it."""
    rounds = [one_round(mode, url, home / f"{mode.name} {n}", total) for n in range(count)]
    episodes, checks, *loops = zip(*rounds, strict=True)
    show(f"episode, {mode.name}", episodes)
    without = [episode - check for episode, check in zip(episodes, checks, strict=True)]
    show("  the same without the self-check", without)
    show("  the self-check", checks)
    for name, calls in zip(LOOPS, loops, strict=True):
        show(f"  {name}", calls)
        show_ratios("    the ratio", map(truediv, episodes, calls))


def peak_of(total: int, url: str, home: Path, *, is_checked: bool) -> None:
    """Print the most memory, in MB, that this process ever held for a run of `total` episodes."""
    store, theatre_id = commit(home / "peak", total, MODES[-1])
    check = check_bundle if is_checked else lambda *_, **__: CheckReport(checks=())
    with check_replaced(check):
        asyncio.run(run(store, theatre_id, url))
    sys.stdout.write(f"{peak_of_memory():.1f}\n")


def show_memory(many: int) -> None:
    """Print the peaks of processes that do one run each."""
    peaks = {}
    few = many // 4
    for total, kind in ((few, "peak"), (many, "peak"), (many, "unchecked")):
        command = [sys.executable, "-m", "tests.benchmarks.http_run", kind, str(total)]
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        peak = peaks[total, kind] = float(finished.stdout)
        name = f"peak of memory, {total} episodes{', unchecked' if kind != 'peak' else ''}"
        say(name, f"    {peak:9.1f} MB")
    difference = peaks[many, "peak"] - peaks[few, "peak"]
    say("  of four times the episodes", f"    {difference:9.1f} MB")
    ratio = peaks[many, "peak"] / peaks[many, "unchecked"]
    say("  the self-check, as a ratio", f"    {ratio:9.2f}")


def main() -> None:
    """Measure everything, at the sizes that the caller asks for, or one peak."""
    with construct() as url, tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:2] in (["peak"], ["unchecked"]):
            is_checked = sys.argv[1] == "peak"
            peak_of(int(sys.argv[2]), url, Path(folder), is_checked=is_checked)
            return
        total, rounds, many = sizes(EPISODES, ROUNDS, MANY)
        for mode in MODES:
            show_processor_time(mode, url, Path(folder), total, rounds)
    if PEAK.exists():
        show_memory(many)


if __name__ == "__main__":
    main()
