"""Makes worker processes quickly: it has imported everything, and forks for each line on stdin.

Each child does what `echelon worker` does, with the settings of the environment. A line names the
crash point at which the child kills itself, or `-`; the answer is the child's process id.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from backend.logs import log_as_json
from backend.runtime import work
from backend.settings import Settings

STATEMENTS = {
    "claim": "UPDATE theatres SET run_status",
    "batch": "INSERT INTO theatre_episode_scores",
    "certificate": "INSERT INTO theatre_certificates",
}
"""What the statement of a crash point begins with; else a type of audit event."""


def die_at(point: str) -> None:
    """Have this process kill itself before the statement of a point, or after its commit.

    `before:` is failed and not persisted, `after:` is persisted and nobody was told.
    """
    moment, _, name = point.partition(":")
    begins = STATEMENTS.get(name, "INSERT INTO theatre_audit_events")
    is_reached = False

    def executing(_c: object, _k: object, statement: str, values: object, *_: object) -> None:
        nonlocal is_reached
        if statement.startswith(begins) and (name in STATEMENTS or f"'{name}'" in repr(values)):
            is_reached = True
            if moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)

    def given_back(*_: object) -> None:
        if is_reached:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", executing)
    event.listen(Pool, "checkin", given_back)


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
            if (point := line.strip()) != "-":
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
