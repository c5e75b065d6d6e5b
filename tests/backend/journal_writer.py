"""A process that records batches until it is killed: `journal_writer.py ADDRESS THEATRE_ID`.

It says the last sequence number of each batch once the batch has been acknowledged.
"""

import asyncio
import itertools
import sys

from backend.database.sessions import application_engine
from backend.repositories.run_journal import PostgresRunJournal
from tests.theatre.files.journal_conformance import remark, result

BATCH = 7


async def write(address: str, theatre_id: str) -> None:
    journal = PostgresRunJournal(application_engine(address), theatre_id)
    for first in itertools.count(1, BATCH):
        batch = [result(seq) for seq in range(first, first + BATCH)]
        await journal.append(batch, [remark(first)])
        print(first + BATCH - 1, flush=True)  # noqa: T201 - it speaks on stdout


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2]))
