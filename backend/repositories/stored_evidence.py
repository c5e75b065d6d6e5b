"""All stored rows of a theatre, for fsck."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Select, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models import (
    Dataset,
    HumanScore,
    SealedBundle,
    Theatre,
    TheatreAuditEvent,
    TheatreCertificate,
    TheatreEpisodeScore,
    TheatreTemplate,
    User,
)

Row = Mapping[str, Any]
_ROWS_AT_A_TIME = 500
_AT_LEISURE = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)


@asynccontextmanager
async def open_snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Open a connection on a snapshot: it sees the database as of now, however long it reads."""
    async with engine.connect() as opened:
        connection = await opened.execution_options(isolation_level="REPEATABLE READ")
        for setting in _AT_LEISURE:
            await connection.execute(text(setting))
        yield connection


async def list_theatre_ids(connection: AsyncConnection) -> Sequence[str]:
    """Return the id of every theatre, the oldest first."""
    query = select(Theatre.id).order_by(Theatre.id)
    return list((await connection.execute(query)).scalars())


async def theatre_row(connection: AsyncConnection, theatre_id: str) -> Row:
    """Return the row of an existing theatre."""
    query = select(Theatre.__table__).where(Theatre.id == theatre_id)
    return dict((await connection.execute(query)).mappings().one())


async def certificate_of(connection: AsyncConnection, theatre_id: str) -> Row | None:
    """Return the certificate of a theatre."""
    table = TheatreCertificate
    query = select(table.__table__).where(table.theatre_id == theatre_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else dict(row)


def stream_events(connection: AsyncConnection, theatre_id: str) -> AsyncIterator[Row]:
    """Yield the audit entries of a theatre in order."""
    table = TheatreAuditEvent
    query = select(table.__table__).where(table.theatre_id == theatre_id).order_by(table.seq)
    return _streamed(connection, query)


def stream_results(connection: AsyncConnection, theatre_id: str) -> AsyncIterator[Row]:
    """Yield the recorded episodes of a theatre in dataset order."""
    table = TheatreEpisodeScore
    query = select(table.__table__).where(table.theatre_id == theatre_id).order_by(table.seq)
    return _streamed(connection, query)


def stream_human_scores(connection: AsyncConnection, theatre_id: str) -> AsyncIterator[Row]:
    """Yield the human scores of a theatre, each with the name of its user, if there is one."""
    table = HumanScore
    query = (
        select(table.__table__, User.username)
        .join(User, User.id == table.user_id, isouter=True)
        .where(table.theatre_id == theatre_id)
        .order_by(table.step_id, table.identity, table.episode_seq)
    )
    return _streamed(connection, query)


def stream_templates(connection: AsyncConnection) -> AsyncIterator[Row]:
    """Yield every template."""
    table = TheatreTemplate
    return _streamed(connection, select(table.__table__).order_by(table.sha256))


def uploads(connection: AsyncConnection) -> AsyncIterator[Row]:
    """Yield every upload, those of the same bytes one after the other."""
    table = Dataset
    return _streamed(connection, select(table.__table__).order_by(table.sha256, table.user_id))


async def find_named_bundles(connection: AsyncConnection) -> frozenset[str]:
    """Return the SHA-256 of every archive that a theatre names."""
    return frozenset((await connection.execute(select(SealedBundle.sha256))).scalars())


async def _streamed(connection: AsyncConnection, query: Select[Any]) -> AsyncIterator[Row]:
    options = {"yield_per": _ROWS_AT_A_TIME}
    async with connection.stream(query, execution_options=options) as rows:
        async for row in rows.mappings():
            yield dict(row)
