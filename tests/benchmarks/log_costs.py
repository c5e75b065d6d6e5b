"""Prints what a run's entries in its issuer's log cost, beside the same run without a log.

`python -m tests.benchmarks.log_costs [EPISODES] [ROUNDS] [ENTRIES]`: the two kinds of runs take
turns; ENTRIES is what the log has when the last figure is measured. Asserts nothing.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.benchmarks.http_run import show
from tests.benchmarks.trivial_theatre import Mode, commit, construct, run
from theatre.api.issuer_log import append_entries, issuer_home, place_in_log
from theatre.api.run_log import close_commitment, log_commitment, sweep
from theatre.api.workspace import utc_now
from theatre.engine.canonical_json import JsonObject
from theatre.files.theatre_store import FileTheatreStore
from theatre.files.trust_home import TRUST_HOME
from theatre.transparency.entries import EntryType, encode_entry

EPISODES, ROUNDS, ENTRIES = 1000, 5, 1000
MODE = Mode(name="one after another", concurrency=1, sanitises=False)
IMPORTED = """
import time
import theatre.api.commitments, theatre.api.connections, theatre.api.judge, theatre.cli.progress
import theatre.cli.certificate_report, theatre.api.template_files, theatre.engine.replay
import theatre.files.theatre_store, theatre.scorers, theatre.oracles.retry
before = time.process_time()
import theatre.api.run_log
print(time.process_time() - before)
"""


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of the processor and of the wall clock."""

    cpu: float
    wall: float


def timed(work: Callable[[], object]) -> Took:
    """Return what `work` takes of this process."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Took(time.process_time() - cpu, time.perf_counter() - wall)


def awaited(made: Callable[[], Coroutine[object, object, object]]) -> Took:
    """Return what a coroutine takes."""
    return timed(lambda: asyncio.run(made()))


def begin(store: FileTheatreStore, theatre_id: str) -> Took:
    """Log a commitment as a run does before its first call."""

    async def logged() -> None:
        await sweep(at=utc_now(), running=theatre_id)
        with store.hold(theatre_id) as held:
            await log_commitment(held, "benchmark")

    return awaited(logged)


def close(store: FileTheatreStore, theatre_id: str) -> Took:
    """Close it as a run does at its end."""
    return awaited(lambda: close_commitment(store.view(theatre_id), is_checked=True))


@dataclass(frozen=True, slots=True)
class Round:
    """A run without a log and one with it; `own` is what the log took of the second."""

    plain: Took
    logged: Took
    waited: Took
    closed: Took
    read: Took

    @property
    def own(self) -> float:
        """Return the seconds of the processor that the log's entries took."""
        return self.waited.cpu + self.closed.cpu + self.read.cpu


def one_round(folder: Path, episodes: int, url: str) -> Round:
    """Run once without and once with a log."""
    store, theatre_id = commit(folder / "plain", episodes, MODE)
    plain = awaited(partial(run, store, theatre_id, url))
    store, theatre_id = commit(folder / "logged", episodes, MODE)
    waited = begin(store, theatre_id)
    logged = awaited(partial(run, store, theatre_id, url))
    closed = close(store, theatre_id)
    return Round(plain, logged, waited, closed, timed(partial(place_in_log, theatre_id, utc_now())))


def main() -> None:
    """Measure."""
    given = [int(argument) for argument in sys.argv[1:]]
    episodes, count, entries = [*given, *(EPISODES, ROUNDS, ENTRIES)[len(given) :]]
    with tempfile.TemporaryDirectory() as folder, construct() as url:
        os.environ[TRUST_HOME] = str(Path(folder) / "issuer")
        # The first one makes keys and fills caches.
        _, *rounds = (one_round(Path(folder) / str(n), episodes, url) for n in range(count + 1))
        show(f"a run of {episodes} episodes without a log", [one.plain.cpu for one in rounds])
        show("the same, logged and closed", [one.logged.cpu + one.own for one in rounds])
        show("the log's part of it, processor", [one.own for one in rounds])
        show("wait for the checkpoint, wall clock", [one.waited.wall for one in rounds])
        show("signed, closed and proved, wall clock", [one.closed.wall for one in rounds])
        shares = [100 * one.own / one.plain.cpu for one in rounds]
        low, middle = min(shares), statistics.median(shares)
        name = "the log's share of the processor time"
        sys.stdout.write(f"{name:44} min {low:9.2f} %    median {middle:9.2f} %\n")
        fill(entries)
        reads = [timed(partial(place_in_log, "", utc_now())).cpu for _ in range(count)]
        show(f"read at the end, {entries} entries", reads)
    show("what is imported for it, processor", [imported() for _ in range(count)])


def fill(entries: int) -> None:
    """Let the log have about so many entries."""
    home = issuer_home()
    trust = home.open(issuer="benchmark", at=utc_now())
    members: list[JsonObject] = [
        {"construct_id": "another", "envelope_sha256": f"{number:064x}"}
        for number in range(entries)
    ]
    added = [encode_entry(EntryType.TELEMETRY, one) for one in members]
    asyncio.run(append_entries(home, trust, added))


def imported() -> float:
    """Return what a new process takes to load what is needed for the log alone."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, check=True, text=True
    )
    return float(ended.stdout)


if __name__ == "__main__":
    main()
