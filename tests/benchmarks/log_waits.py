"""Prints how long the service's runs wait for their checkpoint, and what its log takes of a run.

`python -m tests.benchmarks.log_waits [WAITS] [CROWD] [EPISODES]`: service, worker and the log's
writer are in this process, with an embedded database. WAITS runs come one after another, CROWD at
once, and one has EPISODES. A wait is from the queued commitment until the run goes on. Asserts
nothing.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from backend.main import create_app
from backend.repositories.transparency_log import PostgresLog
from backend.services.runs import execution
from backend.settings import Settings
from tests.backend.serving import Client, served
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.benchmarks.figures import say, sizes
from tests.theatre.echelon_process import until
from theatre.transparency.log import LogWriter

WAITS, CROWD, EPISODES = 60, 40, 1000
IDLE_SECONDS = 2.0
"""Until the end of the run before is in the log, and the writer has its whole burst again."""
AT_ONCE = {"Prefer": "wait=0"}
TO_THE_END = {"Prefer": "wait=60"}

Work = Callable[..., Awaitable[Any]]


def timed(work: Work, took: list[float]) -> Work:
    """Return `work`, which notes how long it took by the wall clock."""

    async def noted(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it is given
        before = time.perf_counter()
        try:
            return await work(*given, **named)
        finally:
            took.append(time.perf_counter() - before)

    return noted


class _Steps(Generator[Any, Any, Any]):
    """Drives a coroutine and notes what its own steps take, not what others do while it waits."""

    def __init__(self, made: Coroutine[Any, Any, Any], took: list[float]) -> None:
        self._made = made
        self._took = took

    def send(self, value: Any) -> Any:  # noqa: ANN401 - whatever it is given
        before = time.thread_time()
        try:
            return self._made.send(value)
        finally:
            self._took.append(time.thread_time() - before)

    def throw(self, *given: Any) -> Any:  # noqa: ANN401 - whatever it is given
        before = time.thread_time()
        try:
            return self._made.throw(*given)
        finally:
            self._took.append(time.thread_time() - before)


class _Stepped:
    """What is awaited instead of a coroutine, for its steps to be noted."""

    def __init__(self, made: Coroutine[Any, Any, Any], took: list[float]) -> None:
        self._made = made
        self._took = took

    def __await__(self) -> Generator[Any, Any, Any]:
        return _Steps(self._made, self._took)


def stepped(work: Callable[..., Coroutine[Any, Any, Any]], took: list[float]) -> Work:
    """Return `work`, which notes the processor time of each of its steps in its own thread."""

    def noted(*given: Any, **named: Any) -> _Stepped:  # noqa: ANN401 - whatever it is given
        return _Stepped(work(*given, **named), took)

    return noted


def show(name: str, seconds: Sequence[float]) -> None:
    """Print quantiles in milliseconds."""
    if not seconds[1:]:
        return
    ordered = sorted(1000 * one for one in seconds)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive")
    figures = ("min", ordered[0]), ("median", cuts[49]), ("90 %", cuts[89]), ("99 %", cuts[98])
    shown = "   ".join(f"{label} {value:7.1f}" for label, value in (*figures, ("max", ordered[-1])))
    say(name, f"{shown} ms")


def committed(client: Client, stage: SumsStage) -> str:
    """Create and commit a theatre; return its path."""
    path = client.post("/api/v1/theatres", {"template_json": stage.template}).headers["location"]
    reply = client.post(f"{path}/commit", b"")
    if reply.status != HTTPStatus.OK:
        raise RuntimeError(f"expected a commitment, got {reply}")
    return path


def has_ended(client: Client, path: str) -> bool:
    """Return whether a theatre has come to its end."""
    return client.get(path).document["outcome"] is not None


@contextlib.contextmanager
def serving(folder: Path, episodes: int) -> Iterator[tuple[Client, SumsStage]]:
    """Serve a service of its own, with a user, and a theatre of so many episodes to commit."""
    stage = sums_stage(folder / "stage", sums(episodes))
    with served(create_app(Settings(home=folder / "home", **stage.settings))) as stranger:
        yield stranger.registered("ada"), stage


def measure_waits(folder: Path, waits: int, crowd: int, waited: list[float]) -> None:
    """Print how long runs wait, one after another and all at once."""
    with serving(folder, 1) as (client, stage):
        for path in [committed(client, stage) for _ in range(waits)]:
            client.post(f"{path}/run", {}, headers=TO_THE_END)
            time.sleep(IDLE_SECONDS)
        first, *later = waited
        say("the first wait of a process", f"{1000 * first:11.1f} ms")
        show(f"a wait when idle, {len(later)} of them", later)
        waited.clear()
        paths = [committed(client, stage) for _ in range(crowd)]
        for path in paths:
            client.post(f"{path}/run", {}, headers=AT_ONCE)
        until(lambda: all(has_ended(client, one) for one in paths), "all ends", pause=0.2)
        show(f"a wait of {len(waited)} runs that begin at once", waited)


def measure_share(folder: Path, episodes: int, written: list[float]) -> None:
    """Print what the log's writer takes of the processor during one run."""
    with serving(folder, episodes) as (client, stage):
        path = committed(client, stage)
        written.clear()
        before = time.process_time()
        client.post(f"{path}/run", {}, headers=TO_THE_END)
        until(lambda: has_ended(client, path), "the end of the run", pause=0.2)
        whole, own = time.process_time() - before, sum(written)
        say(f"a run of {episodes} episodes, processor", f"{1000 * whole:11.1f} ms")
        say("the log's writer meanwhile", f"{1000 * own:11.1f} ms")
        say("the same of the run", f"{100 * own / whole:11.2f} %")


def main() -> None:
    """Measure."""
    waits, crowd, episodes = sizes(WAITS, CROWD, EPISODES)
    with tempfile.TemporaryDirectory() as folder:
        waited: list[float] = []
        written: list[float] = []
        # The writer shares its thread with the run: only its own steps count.
        for owner, name in ((LogWriter, "append"), (PostgresLog, "take_queued")):
            setattr(owner, name, stepped(getattr(owner, name), written))
        name = "log_commitment"
        setattr(execution, name, timed(getattr(execution, name), waited))
        measure_waits(Path(folder) / "waits", waits, crowd, waited)
        measure_share(Path(folder) / "share", episodes, written)


if __name__ == "__main__":
    main()
