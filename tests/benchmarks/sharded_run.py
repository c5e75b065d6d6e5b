"""Prints what large runs over several workers take; asserts only that they are whole.

`python -m tests.benchmarks.sharded_run [EPISODES] [WAITING] [SHARDS]` runs EPISODES trivial
episodes in shards (of a thousand, or so many) over two `echelon worker` processes, beside such a
run over files in one process, and WAITING episodes of a program that waits, over one worker and
over two. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from backend.database.embedded import EmbeddedServer
from backend.jobs.workers import WORKERS_OF_A_PROCESS
from tests.backend.embedded_home import EmbeddedHome
from tests.backend.serving import Client
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_serve import serving
from tests.benchmarks.service_requests import database_seconds, processor_seconds
from tests.benchmarks.trivial_theatre import Mode, commit, construct, episode, run, template_of
from tests.theatre.echelon_process import ECHELON, environment, until
from tests.theatre.runs import TEMPLATE
from theatre.engine.canonical_json import JsonObject, canonical_line

EPISODES, WAITING = 100_000, 240
CONCURRENCY = 16
SHARDS_AT_LEAST = 8
LARGEST_SHARD = 1_000
WAIT_SECONDS = 0.5
LOOK_SECONDS = 0.25
ALONE_AT_MOST = 20_000
MODE = Mode(name="16 at a time", concurrency=CONCURRENCY, sanitises=False)


@dataclass(slots=True)
class Course:
    """How a run went: when what was done, and how large its workers were meanwhile."""

    called_seconds: float = 0.0
    """From the first look at it behind COMMITTED to the last result; LOOK_SECONDS at least."""
    settled_seconds: float = 0.0
    """From there to ARCHIVED."""
    sizes: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)
    """Share of the episodes that were recorded → resident memory of each worker, in MB."""


def resident_megabytes(pid: int) -> float:
    """Return how much of a process is in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (size,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(size) / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A service that runs nothing itself, its database, and what its workers are given."""

    client: Client
    home: EmbeddedHome
    server: EmbeddedServer
    variables: Mapping[str, str]

    @contextlib.contextmanager
    def working(self, count: int, *, shard: int) -> Iterator[list[int]]:
        """Start workers; yield their process ids once all of them are heard of."""
        more = {**self.variables, "ECHELON_SHARD_EPISODES": str(shard)}
        given = environment(self.home.home, more=more)
        with contextlib.ExitStack() as stack:
            started = []
            for _ in range(count):
                worker = subprocess.Popen([ECHELON, "worker"], env=given, stderr=subprocess.DEVNULL)
                stack.enter_context(worker)
                stack.callback(worker.terminate)
                started.append(worker.pid)
            until(lambda: self._registered() == count * WORKERS_OF_A_PROCESS, "the workers")
            yield started
        until(lambda: self._registered() == 0, "the end of the workers")

    def _registered(self) -> int:
        with psycopg.connect(self.server.address()) as connection:
            row = connection.execute("SELECT count(*) FROM procrastinate_workers").fetchone()
        return int(row[0]) if row else 0


def committed(client: Client, template: JsonObject) -> str:
    """Create and commit a theatre; return its path."""
    made = client.post("/api/v1/theatres", {"template_json": template})
    path = made.headers["location"]
    answer = client.post(f"{path}/commit", b"")
    if answer.status != 200:
        raise RuntimeError(f"expected a commitment, got {answer.document}")
    return path


def watched(client: Client, path: str, total: int, workers: Sequence[int]) -> Course:
    """Run a theatre to its end and say how it went."""
    course = Course()
    if client.post(f"{path}/run", b"").status != 202:
        raise RuntimeError("expected a run to be accepted")
    began = called = None
    while True:
        seen, now = client.get(path).document, time.monotonic()
        done = int(seen["run"]["progress"])
        if began is None and seen["state"] not in {"COMMITTED", "DRAFT"}:
            began = now
        if called is None and done == total:
            called = now
        if done:
            course.sizes.append((done / total, tuple(map(resident_megabytes, workers))))
        if seen["run"]["status"] in {"succeeded", "failed", "cancelled"}:
            break
        time.sleep(LOOK_SECONDS)
    if seen["outcome"] != "certified" or began is None or called is None:
        raise RuntimeError(f"expected a certificate for {total} episodes, got {seen}")
    # A run that is over between two looks took at most one.
    course.called_seconds = max(called - began, LOOK_SECONDS)
    course.settled_seconds = now - called
    return course


def show(name: str, figure: float, unit: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{name:52} {figure:12.3f} {unit}\n")
    sys.stdout.flush()


def show_sizes(course: Course) -> None:
    """Print how large the workers were at each tenth of the run, and at their largest."""
    for tenth in range(1, 11):
        sizes = [sizes for share, sizes in course.sizes if share <= tenth / 10]
        if sizes and tenth in {1, 5, 10}:
            listed = " + ".join(f"{size:.0f}" for size in sizes[-1])
            sys.stdout.write(f"{f'  resident at {tenth}0 % of the episodes':52} {listed:>12} MB\n")
    show("  resident at most", max(max(sizes) for _, sizes in course.sizes), "MB")


def size_of_shards(total: int, shards: int | None = None) -> int:
    """Return how many episodes a shard has: of so many, or of at least eight."""
    if shards is not None:
        return math.ceil(total / shards)
    return max(1, min(LARGEST_SHARD, total // SHARDS_AT_LEAST))


def show_many(bench: Bench, folder: Path, total: int, url: str, *, shard: int) -> None:
    """Print what a large run takes, by the wall clock and of the processors."""
    with (folder / "truth.jsonl").open("wb") as lines:
        for seq in range(1, total + 1):
            lines.write(canonical_line(episode(seq)))
    template: Any = template_of((folder / "truth.jsonl").read_bytes(), MODE)
    template["product_theatre_config"]["adapter_endpoint"] = url
    template["fork_definitions"] = TEMPLATE["fork_definitions"]
    with bench.working(2, shard=shard) as workers:
        path = committed(bench.client, template)
        own = sum(map(processor_seconds, workers))
        database = database_seconds(bench.home.postmaster)
        course = watched(bench.client, path, total, workers)
        own = sum(map(processor_seconds, workers)) - own
        database = database_seconds(bench.home.postmaster) - database
    show(f"{total} episodes, shards of {shard}, two workers", course.called_seconds, "s")
    show("  episodes a second", total / course.called_seconds, "/s")
    show("  settlement, export and archive", course.settled_seconds, "s")
    show("  both workers, processor, an episode", own / total * 1000, "ms")
    show("  PostgreSQL, processor, an episode", database / total * 1000, "ms")
    show_sizes(course)


def show_alone(folder: Path, total: int, url: str) -> None:
    """Print what the same takes in one process over files."""
    store, theatre_id = commit(folder / "alone", total, MODE)
    began, own = time.monotonic(), time.process_time()
    asyncio.run(run(store, theatre_id, url))
    show(f"{total} episodes, one process over files", time.monotonic() - began, "s")
    show("  processor, an episode", (time.process_time() - own) / total * 1000, "ms")


def show_waiting(bench: Bench, stage: SumsStage, total: int) -> None:
    """Print how much sooner two workers are done than one, with a program that waits."""
    seconds = []
    for count in (1, 2):
        with bench.working(count, shard=max(1, total // SHARDS_AT_LEAST)) as workers:
            path = committed(bench.client, stage.template)
            course = watched(bench.client, path, total, workers)
        seconds.append(course.called_seconds)
        show(f"{total} episodes of {WAIT_SECONDS} s, workers: {count}", course.called_seconds, "s")
    show("  two workers are quicker by", seconds[0] / seconds[1], "times")


def measure(folder: Path, total: int, waiting: int, *, shard: int) -> None:
    """Start the service and measure."""
    policy = {"timeout_seconds": 60, "sanitise_input": False, "max_concurrency": CONCURRENCY}
    stage = sums_stage(
        folder / "stage",
        sums(waiting),
        template_changes={"execution_policy": policy},
        seconds=WAIT_SECONDS,
    )
    variables = {
        "ECHELON_CONSTRUCTS": stage.variables["ECHELON_CONSTRUCTS"],
        "ECHELON_DATASET_ROOTS": os.pathsep.join([str(stage.folder), str(folder)]),
        "ECHELON_OUTBOUND_ALLOW": "127.0.0.1",
        "ECHELON_WORKER_IN_API": "false",
    }
    home = EmbeddedHome(folder / "home")
    try:
        with (
            construct() as url,
            EmbeddedServer(home.home) as server,
            serving(home.home, **variables) as service,
        ):
            bench = Bench(
                client=service.client.registered("ada"),
                home=home,
                server=server,
                variables=variables,
            )
            show_alone(folder, min(total, ALONE_AT_MOST), url)
            show_many(bench, folder, total, url, shard=shard)
            show_waiting(bench, stage, waiting)
            service.end()
    finally:
        home.end()


def main() -> None:
    """Measure with as many episodes as the caller asks for."""
    given = [int(one) for one in sys.argv[1:]]
    total, waiting, *shards = (*given, *(EPISODES, WAITING)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), total, waiting, shard=size_of_shards(total, *shards))


if __name__ == "__main__":
    main()
