"""Prints what a run's entries in its issuer's log cost, beside the same run without a log.

`python -m tests.benchmarks.log_costs [EPISODES] [ROUNDS] [ENTRIES]`: the two kinds of runs, over
HTTP against a construct in a process of its own, take turns in one process; ENTRIES is what the log
has when the last figure is measured. The writer alone is what makes an entry public: lock, tiles,
checkpoint. Asserts nothing.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex

from tests.benchmarks.figures import show, show_ratios, sizes
from tests.benchmarks.trivial_theatre import Mode, commit, construct, run
from theatre.api.issuer_log import append_entries, issuer_home, place_in_log
from theatre.api.run_log import close_commitment, follow_move, log_commitment, sweep
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
loaded = time.process_time()
import securesystemslib.dsse, securesystemslib.signer
print(loaded - before, time.process_time() - loaded)
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


async def awaited(made: Coroutine[object, object, object]) -> Took:
    """Return what a coroutine takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    await made
    return Took(time.process_time() - cpu, time.perf_counter() - wall)


@dataclass(frozen=True, slots=True)
class Logged:
    """What the log takes of a run: before its first call, at its end, and of its report."""

    begun: Took
    closed: Took
    read: Took

    @property
    def cpu(self) -> float:
        """Return the seconds of the processor that a run has for its log."""
        return self.begun.cpu + self.closed.cpu + self.read.cpu


async def _begin(store: FileTheatreStore, theatre_id: str) -> Took:
    """Log a commitment as `echelon theatre run` does; the run holds the theatre anyway."""
    swept = await awaited(sweep(at=utc_now(), running=theatre_id))
    with store.hold(theatre_id) as held:
        moved = await awaited(follow_move(held))
        logged = await awaited(log_commitment(held, "benchmark"))
    parts = (swept, moved, logged)
    return Took(sum(one.cpu for one in parts), sum(one.wall for one in parts))


async def _close(store: FileTheatreStore, theatre_id: str) -> None:
    await close_commitment(store.view(theatre_id), is_checked=True)


async def _run_logged(store: FileTheatreStore, theatre_id: str, url: str) -> tuple[Took, Took]:
    begun = await _begin(store, theatre_id)
    await run(store, theatre_id, url)
    return begun, await awaited(_close(store, theatre_id))


@dataclass(frozen=True, slots=True)
class Round:
    """A run without a log and one with it, whole; `own` is what the log took of the second."""

    plain: Took
    logged: Took
    own: Logged


def one_round(folder: Path, episodes: int, url: str) -> Round:
    """Run once without and once with a log."""
    store, theatre_id = commit(folder / "plain", episodes, MODE)
    plain = timed(lambda: asyncio.run(run(store, theatre_id, url)))
    store, theatre_id = commit(folder / "logged", episodes, MODE)
    parts: list[Took] = []
    logged = timed(lambda: parts.extend(asyncio.run(_run_logged(store, theatre_id, url))))
    read = timed(partial(place_in_log, theatre_id, utc_now()))
    begun, closed = parts
    both = Took(logged.cpu + read.cpu, logged.wall + read.wall)
    return Round(plain, both, Logged(begun, closed, read))


def writer_alone() -> float:
    """Return the seconds of the processor of what a run has its log written: two entries."""
    home = issuer_home()
    trust = home.open(issuer="benchmark", at=utc_now())

    async def append() -> float:
        took = 0.0
        for _ in range(2):
            named: JsonObject = {"construct_id": "another", "envelope_sha256": token_hex(32)}
            entry = encode_entry(EntryType.TELEMETRY, named)
            took += (await awaited(append_entries(home, trust, [entry]))).cpu
        return took

    return asyncio.run(append())


def show_share(name: str, own: Sequence[float], rounds: Sequence[Round]) -> None:
    """Print how much of the runs without a log something takes, in percent."""
    each = zip(own, rounds, strict=True)
    show_ratios(name, (100 * one / whole.plain.cpu for one, whole in each), "%")


def main() -> None:
    """Measure."""
    episodes, count, entries = sizes(EPISODES, ROUNDS, ENTRIES)
    with tempfile.TemporaryDirectory() as folder, construct() as url:
        os.environ[TRUST_HOME] = str(Path(folder) / "issuer")
        # The first one makes keys and fills caches.
        _, *rounds = (one_round(Path(folder) / str(n), episodes, url) for n in range(count + 1))
        writers = [writer_alone() for _ in rounds]
        show(f"a run of {episodes} episodes without a log", [one.plain.cpu for one in rounds])
        show("the same, logged and closed", [one.logged.cpu for one in rounds])
        show("the log's writer, processor", writers)
        show_share("the same of a run", writers, rounds)
        show("all that the log takes of a run, processor", [one.own.cpu for one in rounds])
        show_share("the same of a run", [one.own.cpu for one in rounds], rounds)
        show("until the first call", [one.own.begun.cpu for one in rounds])
        show("signed, closed and proved, processor", [one.own.closed.cpu for one in rounds])
        show("its place in the record", [one.own.read.cpu for one in rounds])
        show("wait for the checkpoint, wall clock", [one.own.begun.wall for one in rounds])
        show("signed, closed and proved, wall clock", [one.own.closed.wall for one in rounds])
        fill(entries)
        more = [one_round(Path(folder) / f"more-{n}", episodes, url) for n in range(count)]
        show(f"all of it, in a log of {entries} entries", [one.own.cpu for one in more])
        show_share("the same of a run", [one.own.cpu for one in more], more)
    loaded = [imported() for _ in range(count)]
    show("loaded for the log, once a process", [log for log, _ in loaded])
    show("loaded to sign a certificate, once", [sign for _, sign in loaded])


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


def imported() -> tuple[float, float]:
    """Return what a new process takes to load what is needed for the log, and to sign.

    From compiled modules, as an installed package has them.
    """
    command = [sys.executable, "-c", IMPORTED]
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    ended = subprocess.run(command, capture_output=True, check=True, text=True, env=compiled)
    log, signing = map(float, ended.stdout.split())
    return log, signing


if __name__ == "__main__":
    main()
