"""The log of a service as its rows have it: for tests that kill those who write them."""

from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.repositories.theatre_runs import read_stored_theatre
from backend.repositories.transparency_log import queue_commitment
from backend.runtime import now
from tests.backend.databases import Database
from tests.theatre.echelon_process import until
from tests.theatre.runs import COIN
from theatre.files.trust_home import TrustHome
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.record import LogRecord
from theatre.transparency.run_entries import theatre_commitment
from theatre.transparency.tiles import Tree, grow


def shared_keys(folder: Path) -> dict[str, str]:
    """Make keys for all machines of a database, and return the variables that name them."""
    home = TrustHome(folder)
    home.open(issuer="local", at=now())
    return {
        "ECHELON_TRUST": str(home.folder / "trust.json"),
        "ECHELON_ISSUER_KEY": f"file2:{home.folder / 'issuer.pem'}",
        "ECHELON_LOG_KEY": f"file2:{home.folder / 'log.pem'}",
    }


def await_logged(database: Database, entries: int) -> None:
    """Wait until the log has so many entries, and nothing waits to be logged."""
    query = """
        SELECT count(*) FROM log_queue LEFT JOIN log_entries ON queue_id = log_queue.id
        HAVING count(*) = %s AND count(queue_id) = %s
    """
    until(lambda: database.rows(query, entries, entries), f"{entries} entries of the log")


def await_all_logged(database: Database) -> None:
    """Wait until nothing waits to be logged."""
    query = """
        SELECT 1 FROM log_queue LEFT JOIN log_entries ON queue_id = log_queue.id
        WHERE queue_id IS NULL
    """
    until(lambda: not database.rows(query), "an empty queue of the log")


def record_of_rows(database: Database) -> LogRecord:
    """Return what the log says, every entry of it in order and without a fault.

    Every checkpoint that was ever signed is of the same tree as it grew.
    """
    rows = database.rows("SELECT log_index, entry FROM log_entries ORDER BY log_index")
    entries = [bytes(row["entry"]) for row in rows]
    assert [row["log_index"] for row in rows] == list(range(len(rows)))
    record, tree = LogRecord(), Tree()
    for index, entry in enumerate(entries):
        record.take(index, entry)
    assert record.faults == []
    signed = database.rows("SELECT size, checkpoint FROM log_checkpoints ORDER BY seq")
    for row in signed:
        tree = grow(tree, entries[tree.size : row["size"]]).tree
        checkpoint = Checkpoint.parse(Note.parse(row["checkpoint"]).text)
        assert (checkpoint.size, checkpoint.root) == (tree.size, tree.root)
    assert tree.size == len(entries)
    return record


def log_commitment(database: Database, path: str) -> None:
    """Have a commitment logged, as a worker does before the first call."""

    async def queue(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            stored = await read_stored_theatre(connection, path.rpartition("/")[2])
            await queue_commitment(connection, theatre_commitment(stored.value(), COIN))

    database.play(queue)


def log_void(database: Database, path: str) -> None:
    """Have the log close a theatre that its row has as it was, as a log does that caught up."""
    log_commitment(database, path)
    theatre_id = path.rpartition("/")[2]
    row = {"type": "void/v1", "theatre_id": theatre_id, "reason": "cancelled"}
    database.add("log_queue", row)
