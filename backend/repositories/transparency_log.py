"""The transparency log in rows: what is queued, the entries in their places, what was signed.

The lowest tiles and the bundles of entries are no rows: they follow from the entries. A checkpoint
and all that it signs are one transaction, so that no row was ever written for a tree that was not
signed (docs/adr/0184).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import and_, func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models import (
    LogCheckpoint,
    LoggedEntry,
    LogTile,
    QueuedEntry,
    TheatreCertificate,
    TrustDocument,
)
from backend.repositories.theatres import queryable_bytes, queryable_columns
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.transparency.entries import EntryType, VoidReason, decode_entry, encode_entry
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import CHECKPOINT
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.tiles import TILE_WIDTH, decode_bundle, encode_bundle, tile_path

_PATH = re.compile(
    r"tile/(?P<level>entries|[0-9]{1,2})/(?P<number>(?:x[0-9]{3}/){0,4}[0-9]{3})"
    r"(?:\.p/(?P<width>[0-9]{1,3}))?",
    re.ASCII,
)
WRITER_LOCK = 0x6C6F67
"""The advisory lock of the one writer of a database."""
_TRUST_LOCK = 0x747273
_LOCK_SECONDS = 0.25
"""Seconds between two looks whether the writer of another process is gone."""
_AT_A_TIME = 5000


class TilePlace(NamedTuple):
    """What the path of a tile says; `level` None is for entries."""

    level: int | None
    number: int
    width: int

    @classmethod
    def parse(cls, path: str) -> TilePlace | None:
        """Read a path; None for one that no tile has."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        level = None if found["level"] == "entries" else int(found["level"])
        number = int(found["number"].replace("/", "").replace("x", ""))
        place = cls(level, number, int(found["width"] or TILE_WIDTH))
        # One spelling: no empty groups, no width of a whole tile, or of nothing.
        return place if place.width and tile_path(*place) == path else None


# Reading, in a transaction of the caller's.


class SignedRow(NamedTuple):
    """A signed checkpoint, the size of its tree, and which one it is of all that were signed."""

    seq: int
    size: int
    checkpoint: bytes


async def read_signed(connection: AsyncConnection) -> SignedRow | None:
    """Return the last checkpoint that was signed; None for a new log."""
    query = select(LogCheckpoint.seq, LogCheckpoint.size, LogCheckpoint.checkpoint)
    row = (await connection.execute(query.order_by(LogCheckpoint.seq.desc()).limit(1))).first()
    return None if row is None else SignedRow._make(row)


class LogReader:
    """A log's files over a connection: a `TileStore`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none."""
        data = await self._find(path)
        if data is None:
            raise NotFoundError(f"expected a file of the log, got {path[:100]!a}")
        return data

    async def _find(self, path: str) -> bytes | None:
        if path == CHECKPOINT:
            signed = await read_signed(self._connection)
            return None if signed is None else signed.checkpoint
        place = TilePlace.parse(path)
        if place is None:
            return None
        if place.level:
            stored = select(LogTile.data).where(LogTile.path == path)
            return cast("bytes | None", await self._connection.scalar(stored))
        column = LoggedEntry.entry if place.level is None else LoggedEntry.leaf
        first = place.number * TILE_WIDTH
        query = select(column).where(
            LoggedEntry.log_index >= first, LoggedEntry.log_index < first + place.width
        )
        found = await self._connection.execute(query.order_by(LoggedEntry.log_index))
        rows = found.scalars().all()
        if len(rows) != place.width:
            return None
        return encode_bundle(rows) if place.level is None else b"".join(rows)


class LoggedRow(NamedTuple):
    """The place of an entry, its bytes, and the first checkpoint that has it.

    Where witnesses have cosigned that checkpoint since, it has their lines: its text is the same.
    """

    place: int
    entry: bytes
    checkpoint: bytes


class ListedEntry(NamedTuple):
    """An entry of the log in its place, and the certificate that it is of, if it is of one."""

    place: int
    entry: bytes
    certificate_id: str | None


async def find_listed_entries(
    connection: AsyncConnection, *, before: int | None, limit: int
) -> Sequence[ListedEntry]:
    """Return entries of the log, the newest first, from the place below `before` on."""
    query = (
        select(LoggedEntry.log_index, LoggedEntry.entry, TheatreCertificate.id)
        .outerjoin(QueuedEntry, QueuedEntry.id == LoggedEntry.queue_id)
        .outerjoin(
            TheatreCertificate,
            and_(
                TheatreCertificate.theatre_id == QueuedEntry.theatre_id,
                QueuedEntry.type == EntryType.CERTIFICATE.value,
            ),
        )
    )
    if before is not None:
        query = query.where(LoggedEntry.log_index < before)
    rows = await connection.execute(query.order_by(LoggedEntry.log_index.desc()).limit(limit))
    return [ListedEntry._make(row) for row in rows]


async def find_commitment(connection: AsyncConnection, theatre_id: str) -> LoggedRow | None:
    """Return where the log has the commitment of a theatre; None where it has not."""
    return await _find_entry(connection, theatre_id, EntryType.COMMITMENT)


async def find_certificate_entry(connection: AsyncConnection, theatre_id: str) -> LoggedRow | None:
    """Return where the log has the certificate of a theatre; None where it has not."""
    return await _find_entry(connection, theatre_id, EntryType.CERTIFICATE)


async def _find_entry(
    connection: AsyncConnection, theatre_id: str, kind: EntryType
) -> LoggedRow | None:
    row = (await connection.execute(_ENTRY, {"theatre_id": theatre_id, "type": kind})).first()
    return None if row is None else LoggedRow._make(row)


async def find_nonce(connection: AsyncConnection, theatre_id: str) -> str | None:
    """Return the nonce, in hex, that a run drew with; None for one that began without."""
    found = await connection.scalar(_NONCE, {"theatre_id": theatre_id})
    return None if found is None else str(found)


async def is_queued(connection: AsyncConnection, theatre_id: str) -> bool:
    """Tell whether the commitment of a theatre is in the log, or will be."""
    query = select(QueuedEntry.id).where(
        QueuedEntry.theatre_id == theatre_id, QueuedEntry.type == EntryType.COMMITMENT.value
    )
    return (await connection.execute(query)).first() is not None


async def is_closed(connection: AsyncConnection, theatre_id: str) -> bool:
    """Tell whether an entry that closes the commitment of a theatre is in the log, or will be."""
    query = select(QueuedEntry.id).where(
        QueuedEntry.theatre_id == theatre_id, QueuedEntry.type != EntryType.COMMITMENT.value
    )
    return (await connection.execute(query)).first() is not None


async def is_entry_queued(connection: AsyncConnection, entry: bytes) -> bool:
    """Tell whether the log has an entry, or will have it."""
    same = func.sha256(QueuedEntry.entry) == hashlib.sha256(entry).digest()
    query = select(QueuedEntry.id).where(same)
    return (await connection.execute(query)).first() is not None


async def lock_trust(connection: AsyncConnection) -> None:
    """Be the only one to change `trust.json`, for this transaction; no certificate is signed."""
    await connection.execute(select(func.pg_advisory_xact_lock(_TRUST_LOCK)))


async def hold_trust(connection: AsyncConnection) -> None:
    """Keep `trust.json` and the keys as they are, for this transaction."""
    await connection.execute(select(func.pg_advisory_xact_lock_shared(_TRUST_LOCK)))


class Revocation(NamedTuple):
    """The entry that revokes a key, and its place in the log; None while it waits for one."""

    entry: bytes
    place: int | None


async def find_revocation(connection: AsyncConnection, kid: str) -> Revocation | None:
    """Return what revokes an issuer's key, logged or queued; None for one that may sign."""
    return (await find_revocations(connection)).get(kid)


async def find_revocations(connection: AsyncConnection) -> dict[str, Revocation]:
    """Return what revokes issuer's keys, logged or queued, by the ids of the keys."""
    rows = await connection.execute(_REVOCATIONS)
    return {row.kid: Revocation(row.entry, row.log_index) for row in rows}


async def find_trust(connection: AsyncConnection) -> bytes | None:
    """Return `trust.json` as readers get it; None before a worker of this database began."""
    query = select(TrustDocument.document).order_by(TrustDocument.seq.desc()).limit(1)
    return cast("bytes | None", await connection.scalar(query))


_REVOCATIONS = text(f"""
    SELECT members->>'kid' AS kid, log_queue.entry, log_entries.log_index
    FROM log_queue LEFT JOIN log_entries ON log_entries.queue_id = log_queue.id
    CROSS JOIN LATERAL (SELECT {queryable_bytes("log_queue.entry")} AS members) AS read
    WHERE log_queue.theatre_id IS NULL AND log_queue.type = 'key/v1'
        AND members->>'revoked_at' IS NOT NULL
    ORDER BY log_queue.id DESC
""")  # noqa: S608 - of constants alone
_NONCE = text("""
    SELECT detail_json->>'run_nonce' FROM theatre_audit_events
    WHERE theatre_id = :theatre_id AND event_type = 'activated'
""")
_LOGGED = """
    SELECT log_entries.log_index, log_entries.entry, signed.checkpoint
    FROM log_queue
    JOIN log_entries ON log_entries.queue_id = log_queue.id
    CROSS JOIN LATERAL (
        SELECT checkpoint FROM log_checkpoints
        WHERE size = (SELECT min(size) FROM log_checkpoints WHERE size > log_entries.log_index)
        ORDER BY seq DESC LIMIT 1
    ) AS signed
    WHERE log_queue.theatre_id = :theatre_id AND log_queue.type = :type
"""
_ENTRY = text(_LOGGED)


# What came of the runs of a construct, counted as `theatre.transparency.record` counts them.


class CountedRuns(NamedTuple):
    """How many runs of a version came to the same."""

    construct_version: str
    status: str
    """`certified`, `open`, `overdue`, or why they are void."""
    runs: int


class CountedPlace(NamedTuple):
    """Which run of its version a theatre was, from 1, and how many of them came to `status`.

    The theatre itself is one of those that came to `own_status`. `of_construct` are the runs of all
    `versions` of its construct.
    """

    theatre_id: str
    number: int
    own_status: str
    status: str
    runs: int
    of_construct: int
    versions: int


async def count_runs(
    connection: AsyncConnection, construct_id: str, construct_version: str | None, *, now: datetime
) -> Sequence[CountedRuns]:
    """Return what came of the logged runs of a construct, or of one version of it."""
    values = {"construct_id": construct_id, "construct_version": construct_version, "now": now}
    rows = await connection.execute(_COUNTED, queryable_columns(values))
    return [CountedRuns._make(row) for row in rows]


async def count_runs_around(
    connection: AsyncConnection, theatre_ids: Sequence[str], *, now: datetime
) -> Sequence[CountedPlace]:
    """Return what came of the runs of the versions that these theatres put to the test.

    A row a theatre and status, nothing for a theatre that the log does not have.
    """
    rows = await connection.execute(_AROUND, {"theatre_ids": [*theatre_ids], "now": now})
    return [CountedPlace(str(row[0]), *row[1:]) for row in rows]


class CountedAudits(NamedTuple):
    """How many audits there were of certificates, as `LogRecord.audits` has them."""

    requested: int
    answered: int
    overdue: int


async def count_audits(
    connection: AsyncConnection, construct_id: str, construct_version: str | None, *, now: datetime
) -> CountedAudits:
    """Count the logged audits of a construct's certificates, or of those of one version."""
    values = {"construct_id": construct_id, "construct_version": construct_version, "now": now}
    rows = await connection.execute(_AUDITS, queryable_columns(values))
    return CountedAudits._make(rows.one())


_AUDITS = text(f"""
    WITH logged AS (
        SELECT log_queue.type, log_entries.log_index,
            {queryable_bytes("log_queue.entry")} AS members
        FROM log_queue JOIN log_entries ON log_entries.queue_id = log_queue.id
        WHERE log_queue.theatre_id IS NULL
            AND log_queue.type IN ('dispute/v1', 'attestation/v1')
    ), audits AS (
        SELECT CAST(asked.members->>'open_by' AS timestamptz) AS open_by, EXISTS (
            SELECT FROM logged AS answer
            WHERE answer.members->>'answers' = asked.members->>'envelope_sha256'
                AND answer.members->>'statement_sha256' = asked.members->>'statement_sha256'
                AND answer.log_index > asked.log_index
        ) AS is_answered
        FROM logged AS asked
        JOIN theatre_certificates AS certificate
            ON certificate.statement_sha256 = asked.members->>'statement_sha256'
        WHERE asked.type = 'dispute/v1' AND asked.members->>'open_by' IS NOT NULL
            AND certificate.construct_id = :construct_id
            AND (CAST(:construct_version AS text) IS NULL
                OR certificate.construct_version = :construct_version)
    )
    SELECT count(*), count(*) FILTER (WHERE is_answered),
        count(*) FILTER (WHERE NOT is_answered AND open_by < :now)
    FROM audits
""")  # noqa: S608 - of constants alone
_STATUS = """
    CASE closing.type
        WHEN 'certificate/v1' THEN 'certified'
        WHEN 'void/v1' THEN closing.reason
        ELSE CASE WHEN commitment.close_by < :now THEN 'overdue' ELSE 'open' END
    END
"""
_PLACED = """
    log_queue AS commitment
    JOIN log_entries AS placed ON placed.queue_id = commitment.id
    LEFT JOIN (log_queue AS closing JOIN log_entries AS closed ON closed.queue_id = closing.id)
        ON closing.theatre_id = commitment.theatre_id
        AND closing.type IN ('certificate/v1', 'void/v1')
"""
_COUNTED = text(f"""
    SELECT commitment.construct_version, {_STATUS} AS status, count(*)
    FROM {_PLACED}
    WHERE commitment.type = 'commitment/v1' AND commitment.construct_id = :construct_id
        AND (CAST(:construct_version AS text) IS NULL
            OR commitment.construct_version = :construct_version)
    GROUP BY 1, 2 ORDER BY 1, 2
""")  # noqa: S608 - of constants alone
_AROUND = text(f"""
    WITH versions AS (
        SELECT DISTINCT construct_id, construct_version FROM log_queue
        WHERE type = 'commitment/v1' AND theatre_id = ANY(CAST(:theatre_ids AS uuid[]))
    ), runs AS (
        SELECT commitment.theatre_id, versions.*, {_STATUS} AS status, row_number() OVER (
            PARTITION BY versions.construct_id, versions.construct_version
            ORDER BY placed.log_index
        ) AS number
        FROM {_PLACED}
        JOIN versions ON versions.construct_id = commitment.construct_id
            AND versions.construct_version = commitment.construct_version
        WHERE commitment.type = 'commitment/v1'
    ), totals AS (
        SELECT construct_id, construct_version, status, count(*) AS runs
        FROM runs GROUP BY 1, 2, 3
    ), constructs AS (
        SELECT commitment.construct_id, count(*) AS runs,
            count(DISTINCT commitment.construct_version) AS versions
        FROM log_queue AS commitment JOIN log_entries AS placed ON placed.queue_id = commitment.id
        WHERE commitment.type = 'commitment/v1'
            AND commitment.construct_id IN (SELECT construct_id FROM versions)
        GROUP BY 1
    )
    SELECT own.theatre_id, own.number, own.status, totals.status, totals.runs, constructs.runs,
        constructs.versions
    FROM runs AS own JOIN totals USING (construct_id, construct_version)
    JOIN constructs USING (construct_id)
    WHERE own.theatre_id = ANY(CAST(:theatre_ids AS uuid[]))
""")  # noqa: S608 - of constants alone


# Queueing, in the transaction of what has happened.


async def queue_commitment(connection: AsyncConnection, entry: bytes) -> bool:
    """Queue the commitment of a theatre, unless it is queued; tell whether it was not."""
    _, members = decode_entry(entry)
    row = {
        "type": EntryType.COMMITMENT.value,
        "theatre_id": members["theatre_id"],
        "entry": entry,
        "construct_id": members["construct_id"],
        "construct_version": members["construct_version"],
        "close_by": parse_rfc3339(cast("str", members["close_by"])),
    }
    statement = insert_or_leave(QueuedEntry).values(queryable_columns(row))
    return (await connection.execute(statement.on_conflict_do_nothing())).rowcount > 0


async def queue_certificate(connection: AsyncConnection, theatre_id: str, entry: bytes) -> None:
    """Queue the entry that closes a commitment with a certificate."""
    row = {"type": EntryType.CERTIFICATE.value, "theatre_id": theatre_id, "entry": entry}
    await connection.execute(insert(QueuedEntry), row)


async def queue_void(connection: AsyncConnection, theatre_id: str, reason: VoidReason) -> None:
    """Queue the entry that closes a commitment without a certificate."""
    row = {"type": EntryType.VOID.value, "theatre_id": theatre_id, "reason": reason.value}
    await connection.execute(insert(QueuedEntry), row)


async def queue_entries(
    connection: AsyncConnection, kind: EntryType, entries: Sequence[bytes]
) -> None:
    """Queue entries that are of no theatre, but for those that were queued before."""
    for entry in entries:
        row = {"type": kind.value, "entry": entry}
        statement = insert_or_leave(QueuedEntry).values(row)
        await connection.execute(statement.on_conflict_do_nothing())


async def store_trust(connection: AsyncConnection, document: bytes, *, at: datetime) -> None:
    """Store `trust.json` as readers get it from now on."""
    following = select(func.coalesce(func.max(TrustDocument.seq) + 1, 0)).scalar_subquery()
    row = {"seq": following, "document": document, "created_at": at}
    await connection.execute(insert(TrustDocument).values(row))


# Writing.


class QueuedRow(NamedTuple):
    """What is to be logged next: its row, and its bytes."""

    id: int
    entry: bytes


class PostgresLog:
    """A log's files in a database: implements `theatre.transparency.log.LogStore`.

    What is written is kept in memory until a checkpoint signs it, and stored with that.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # A run waits for each question to the database: a look is one, and no transaction.
        self._looking = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._written: dict[str, bytes] = {}
        self._queued: dict[bytes, int] = {}
        self._seen_before = 0

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none."""
        async with self._looking.connect() as connection:
            return await LogReader(connection).read(path)

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Keep files for the transaction of the checkpoint that signs them."""
        self._written = dict(files)

    async def signed(self) -> bytes | None:
        """Return the last checkpoint that was signed, which is public."""
        async with self._looking.connect() as connection:
            signed = await read_signed(connection)
        return None if signed is None else signed.checkpoint

    async def swap_signed(self, old: bytes | None, new: bytes) -> None:
        """Store a checkpoint with what it signs; LogForkError where the last one is not `old`."""
        written, self._written = self._written, {}
        try:
            async with self._engine.begin() as connection:
                signed = await read_signed(connection)
                if (None if signed is None else signed.checkpoint) != old:
                    raise LogForkError("expected one writer of the log, got another's checkpoint")
                await self._store(connection, signed, written, new)
        except IntegrityError as error:
            # The other writer's transaction has ended after this one began.
            raise LogForkError("expected one writer of the log, got another's rows") from error

    async def publish(self, checkpoint: bytes) -> None:
        """Do nothing: what was signed and stored is public."""

    async def find(self, leaves: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return the indices of the entries that the signed tree holds, by leaf hash."""
        async with self._looking.connect() as connection:
            found = await connection.execute(_FOUND, {"leaves": [*leaves]})
            return {row.leaf: row.log_index for row in found}

    async def take_queued(self) -> Sequence[QueuedRow]:
        """Return the next entries of the queue, in their order; at most 5,000.

        A void entry comes once its commitment has a place.
        """
        values = {"seen_before": self._seen_before, "limit": _AT_A_TIME}
        async with self._looking.connect() as connection:
            found = (await connection.execute(_QUEUED, values)).all()
        rows = [row for row in found if row.id is not None]
        if not rows:
            self._seen_before = found[0].oldest
        taken = [QueuedRow(row.id, _entry(row)) for row in rows]
        self._queued = {row.entry: row.id for row in taken}
        return taken

    async def _store(
        self,
        connection: AsyncConnection,
        signed: SignedRow | None,
        written: Mapping[str, bytes],
        new: bytes,
    ) -> None:
        before = 0 if signed is None else signed.size
        entries: list[dict[str, Any]] = []
        tiles: list[dict[str, Any]] = []
        for path, data in written.items():
            place = TilePlace.parse(path)
            if place is not None and place.level is None:
                bundle = enumerate(decode_bundle(data), start=place.number * TILE_WIDTH)
                entries += (self._row(index, one) for index, one in bundle if index >= before)
            elif place is not None and place.level:
                tiles.append({"path": path, "data": data})
        if entries:
            await connection.execute(insert(LoggedEntry), entries)
        if tiles:
            await connection.execute(insert(LogTile), tiles)
        row = {
            "seq": 0 if signed is None else signed.seq + 1,
            "size": Checkpoint.parse(Note.parse(new).text).size,
            "checkpoint": new,
        }
        await connection.execute(insert(LogCheckpoint), row)

    def _row(self, index: int, entry: bytes) -> dict[str, Any]:
        return {"log_index": index, "queue_id": self._queued.get(entry), "entry": entry}


def _entry(row: Any) -> bytes:  # noqa: ANN401 - a row of the queue
    if row.entry is not None:
        return bytes(row.entry)
    return encode_entry(
        EntryType.VOID,
        {
            "theatre_id": str(row.theatre_id),
            "commitment_index": row.commitment_index,
            "reason": row.reason,
        },
    )


# One statement, so one snapshot: what ended before `oldest` is in it, and what goes on is not
# passed over. A row comes also where nothing is queued. `ORDER BY` is there twice, as a join keeps
# no order.
_QUEUED = text("""
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest, queued.*
    FROM (VALUES (true)) AS one LEFT JOIN (
        SELECT queued.id, queued.entry, queued.theatre_id, queued.reason,
            placed.log_index AS commitment_index
        FROM log_queue AS queued
        LEFT JOIN log_entries AS logged ON logged.queue_id = queued.id
        LEFT JOIN log_queue AS commitment ON commitment.theatre_id = queued.theatre_id
            AND commitment.type = 'commitment/v1' AND queued.type = 'void/v1'
        LEFT JOIN log_entries AS placed ON placed.queue_id = commitment.id
        WHERE queued.queued_in >= :seen_before AND logged.queue_id IS NULL
            AND (queued.type <> 'void/v1' OR placed.log_index IS NOT NULL)
        ORDER BY queued.id
        LIMIT :limit
    ) AS queued ON true
    ORDER BY queued.id
""")
# An array: with `IN` each number of leaves is another statement, which is prepared anew.
_FOUND = text("SELECT leaf, log_index FROM log_entries WHERE leaf = ANY(CAST(:leaves AS bytea[]))")


@contextlib.asynccontextmanager
async def hold_writer_lock(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Be the one writer while the connection is open that is yielded; waits for another one.

    Two that hold themselves for it, as after an outage, sign nothing twice: `swap_signed` decides.
    """
    async with engine.connect() as connection:
        try:
            # No waiting in the database: that would keep it from cleaning up behind this session.
            while not await connection.scalar(_TRY_LOCK):
                await connection.rollback()
                await asyncio.sleep(_LOCK_SECONDS)
            await connection.commit()
            yield connection
        finally:
            # The lock is the session's: it must not go back to the pool with it.
            await connection.invalidate()


_TRY_LOCK = select(func.pg_try_advisory_lock(WRITER_LOCK))
