"""Makes worker processes quickly: it has imported everything, and forks for each line on stdin.

Each child does what `echelon worker` does, with the settings of the environment. A line names the
crash point at which the child kills itself, `disk` for one whose disk stands still, or `-`; with
`other scorer ` before it, the child has another scorer under the same name and version. The answer
is the child's process id.
"""

import asyncio
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import Pool

from backend.logs import log_as_json
from backend.runtime import now, work
from backend.services import resources
from backend.services.runs.execution import RunEvidence
from backend.services.transparency.keys import open_keys
from backend.settings import Settings
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.replay.episode import EpisodeCaller
from theatre.providers import ProviderClient
from theatre.scorers import load_scorers

STATEMENTS = {
    "claim": "UPDATE theatres SET run_status",
    "batch": "INSERT INTO theatre_episode_scores",
    "certificate": "INSERT INTO theatre_certificates",
    "queued": "INSERT INTO log_queue",
    "placed": "INSERT INTO log_entries",
    "signed": "INSERT INTO log_checkpoints",
}
"""What the statement of a crash point begins with; else a type of audit event."""
STEPS: dict[str, tuple[type[Any], str]] = {
    "invoke": (EpisodeCaller, "call"),
    "seal": (EvidenceBundleBuilder, "seal"),
    "keep": (RunEvidence, "store_bundle"),
    "publish": (RunEvidence, "store_export"),
    "judge": (ProviderClient, "call"),
}
"""Crash points beside the database: what does each."""
OTHER_SCORER = "other scorer "
STANDING = "the disk stands still"
"""As long as this file is in the home folder, once it is there."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str) -> None:
    """Have this process kill itself before a point, or after it.

    `before:` is failed and not persisted, `after:` is persisted and nobody was told.
    """
    moment, _, name = point.partition(":")
    if name in STEPS:
        die_around(*STEPS[name], is_before=moment == "before")
    else:
        die_around_statement(name, is_before=moment == "before")


def die_around(owner: type[Any], name: str, *, is_before: bool) -> None:
    done: Callable[..., Any] = getattr(owner, name)

    async def dies(*arguments: object) -> None:
        if not is_before:
            await done(*arguments)
        die()

    def dies_at_once(*arguments: object) -> None:
        if not is_before:
            done(*arguments)
        die()

    setattr(owner, name, dies if inspect.iscoroutinefunction(done) else dies_at_once)


def die_around_statement(name: str, *, is_before: bool) -> None:
    """Before the statement is sent, or after its transaction was committed."""
    begins = STATEMENTS.get(name, "INSERT INTO theatre_audit_events")
    reached: list[object] = []

    def executing(
        connection: Connection, _k: object, statement: str, values: object, *_: object
    ) -> None:
        if statement.startswith(begins) and (name in STATEMENTS or f"'{name}'" in repr(values)):
            if is_before:
                die()
            reached.append(connection.connection.dbapi_connection)

    def given_back(connection: object, _: object) -> None:
        # That one, whose transaction has ended: not any other.
        if connection in reached:
            die()

    event.listen(Engine, "before_cursor_execute", executing)
    event.listen(Pool, "checkin", given_back)


def stand_still(standing: Path) -> None:
    """Have the disk of this process stand still once, until somebody takes the file away."""
    written = os.fsync

    def stands(fd: Any) -> None:  # noqa: ANN401 - whatever a file is to the disk
        os.fsync = written
        standing.touch()
        while standing.exists():
            time.sleep(0.01)
        written(fd)

    os.fsync = stands


def score_otherwise() -> None:
    installed = load_scorers()
    half = replace(installed["exact_match"], score=lambda _: 0.5)
    setattr(resources, "load_scorers", lambda: {**installed, half.name: half})  # noqa: B010


async def worker() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await work(Settings.from_environment(), stop)


def main() -> None:
    children: list[int] = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            log_as_json("info")
            point = line.strip()
            if point.startswith(OTHER_SCORER):
                score_otherwise()
                point = point.removeprefix(OTHER_SCORER)
            if point == "disk":
                # The disk is to stand still in a run, not while the keys are made.
                open_keys(Settings.from_environment(), at=now())
                stand_still(Path(os.environ["ECHELON_HOME"]) / STANDING)
            elif point != "-":
                die_at(point)
            asyncio.run(worker())
            os._exit(0)
        children.append(child)
        print(child, flush=True)  # noqa: T201 - it speaks on stdout
    for child in children:
        # Not reaped before: the number is still this child's.
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
