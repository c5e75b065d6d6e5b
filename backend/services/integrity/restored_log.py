"""The log of a database that was restored: compared with what others have seen, and caught up.

Source: docs/adr/0185.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models import LoggedEntry, QueuedEntry, Theatre
from backend.errors import BackupError
from backend.repositories.logged_theatres import find_trust_documents
from backend.repositories.transparency_log import (
    PostgresLog,
    hold_writer_lock,
    queue_commitment,
    queue_entries,
)
from theatre.api.log_network import compare_with_others, open_log
from theatre.engine.canonical_json import JsonObject
from theatre.transparency.continuation import recover
from theatre.transparency.entries import EntryType, decode_entry
from theatre.transparency.errors import EntryError
from theatre.transparency.notes import Checkpoint
from theatre.transparency.tiles import decode_bundle
from theatre.transparency.trust import Trust

_ENTRIES = "tile/entries/"
_CLOSINGS = frozenset({EntryType.CERTIFICATE, EntryType.VOID})


async def compare_restored_log(engine: AsyncEngine) -> Sequence[str]:
    """Hold the log to its witnesses and its address; return in words what was not compared.

    Raises LogBehindError and LogForkError where the service must not sign.
    """
    trust = await _read_trust(engine)
    if trust is None:
        return ()
    if not (trust.url or any(one.url for one in trust.policy.witnesses.values())):
        why = (
            "the log was compared with nothing, as trust.json names neither a witness nor an "
            "address of it: where it went on behind the backup, `echelon admin recover PLACE` has "
            "to come before the service starts, or it signs a second log"
        )
        return (why,)
    return (await compare_with_others(PostgresLog(engine), trust)).missing


async def recover_service_log(engine: AsyncEngine, place: str) -> Checkpoint:
    """Take what the log lacks from a newer copy at a URL or in a folder; nothing is signed.

    BackupError for a database without a log, and errors as `recover`.
    """
    trust = await _read_trust(engine)
    if trust is None:
        raise BackupError("expected a database with a log, got one in which no service has run")
    async with open_log(place) as copy, hold_writer_lock(engine):
        return await recover(_CaughtUpLog(engine), copy, trust.log)


async def _read_trust(engine: AsyncEngine) -> Trust | None:
    async with engine.connect() as connection:
        documents = await find_trust_documents(connection)
    return Trust.parse(documents[-1]) if documents else None


class _CaughtUpLog(PostgresLog):
    """Links entries that it takes over with rows of the queue, as if they had waited there.

    A commitment that is open here and was closed since the backup can so be closed no second time,
    a key that was revoked since signs nothing more, and the audits of since then are counted.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self._rows = engine

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Queue what belongs to theatres that are here or to none; keep the files."""
        bundles = (data for path, data in files.items() if path.startswith(_ENTRIES))
        entries = dict.fromkeys(entry for data in bundles for entry in decode_bundle(data))
        async with self._rows.begin() as connection:
            self._queued = await _queue(connection, entries)
        await super().write(files)


async def _queue(connection: AsyncConnection, entries: Iterable[bytes]) -> dict[bytes, int]:
    """Queue entries of theatres that are here or of none; return the rows of all that have one."""
    voids: dict[tuple[str, str], bytes] = {}
    for entry in entries:
        try:
            kind, members = decode_entry(entry)
        except EntryError:
            continue
        if kind is EntryType.VOID:
            voids[str(members["theatre_id"]), str(members["reason"])] = entry
        if kind is EntryType.COMMITMENT and await _is_here(connection, members):
            await queue_commitment(connection, entry)
        if kind in _CLOSINGS and await _is_open(connection, members):
            await connection.execute(insert(QueuedEntry), _closing_row(kind, members, entry))
        if kind is not EntryType.COMMITMENT and kind not in _CLOSINGS:
            await queue_entries(connection, kind, [entry])
    query = (
        select(QueuedEntry.id, QueuedEntry.entry, QueuedEntry.theatre_id, QueuedEntry.reason)
        .outerjoin(LoggedEntry, LoggedEntry.queue_id == QueuedEntry.id)
        .where(LoggedEntry.queue_id.is_(None))
    )
    queued: dict[bytes, int] = {}
    for row in await connection.execute(query):
        known = row.entry or voids.get((str(row.theatre_id), str(row.reason)))
        if known is not None:
            queued[bytes(known)] = row.id
    return queued


async def _is_here(connection: AsyncConnection, members: JsonObject) -> bool:
    query = select(Theatre.id).where(Theatre.id == cast("str", members["theatre_id"]))
    return (await connection.execute(query)).first() is not None


async def _is_open(connection: AsyncConnection, members: JsonObject) -> bool:
    """Tell whether a theatre's commitment is queued or logged here, and nothing that closes it."""
    query = select(QueuedEntry.type).where(
        QueuedEntry.theatre_id == cast("str", members["theatre_id"])
    )
    return set((await connection.execute(query)).scalars()) == {EntryType.COMMITMENT}


def _closing_row(kind: EntryType, members: JsonObject, entry: bytes) -> dict[str, object]:
    is_void = kind is EntryType.VOID
    return {
        "type": kind.value,
        "theatre_id": members["theatre_id"],
        "entry": None if is_void else entry,
        "reason": members["reason"] if is_void else None,
    }
