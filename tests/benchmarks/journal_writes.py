"""Prints how many episodes a second the PostgreSQL journal makes durable; asserts nothing.

`python -m tests.benchmarks.journal_writes [BATCHES] [ROUNDS]` appends batches of 100 episodes, with
one audit entry each, to an embedded server of its own, which waits for the disk as in service.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import OWNER
from backend.repositories.run_journal import PostgresRunJournal
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.backend.embedded_home import EmbeddedHome
from tests.benchmarks.figures import show_rates, sizes
from tests.theatre.files.journal_conformance import THEATRE_ID, remark, result

BATCH = 100
BATCHES, ROUNDS = 50, 5


async def append(database: Database, batches: int, rounds: int) -> None:
    """Append and print the rate, wall clock, and this process's time for an episode."""
    engine = database.engine()
    journal = PostgresRunJournal(engine, THEATRE_ID)
    rates, seconds, first = [], [], 1
    for _ in range(rounds):
        ends = range(first + BATCH, first + BATCH * (batches + 1), BATCH)
        made = [[result(seq) for seq in range(end - BATCH, end)] for end in ends]
        began, own = time.perf_counter(), time.process_time()
        for batch in made:
            await journal.append(batch, [remark(first)])
        rates.append(BATCH * batches / (time.perf_counter() - began))
        seconds.append((time.process_time() - own) / BATCH / batches)
        first += BATCH * batches
    await engine.dispose()
    own_time = f"processor {statistics.median(seconds) * 1000:6.3f} ms"
    show_rates("PostgreSQL journal, episodes in batches of 100", rates, own_time)


def measure(home: Path, batches: int, rounds: int) -> None:
    """Start a server with one theatre and measure."""
    with EmbeddedServer(home) as server:
        migrations.upgrade(server.address(OWNER))
        database = Database(
            application=server.address(),
            owner=server.address(OWNER),
            superuser=server.address(SUPERUSER),
        )
        database.add("users", A_USER)
        database.add("theatre_templates", A_TEMPLATE)
        database.add_theatre(THEATRE_ID, **COMMITMENT)
        asyncio.run(append(database, batches, rounds))


def main() -> None:
    """Measure with as many batches and rounds as the caller asks for."""
    batches, rounds = sizes(BATCHES, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        home = EmbeddedHome(Path(folder) / "home")
        try:
            measure(home.home, batches, rounds)
        finally:
            home.end()


if __name__ == "__main__":
    main()
