"""Evidence of a run: for its owner, and public once the theatre is resolved."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, insert, or_, select, text
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
from backend.repositories.pages import NumberedWindow, Page, count_rows, in_order
from backend.repositories.template_views import DISCLOSURE
from theatre.engine.canonical_json import JsonObject

_ENDED = ("RESOLVED", "ARCHIVED")


class DisclosedTheatre(NamedTuple):
    """A theatre whose evidence a reader may see, and whether as its owner."""

    id: str
    is_owner: bool
    state: str
    disclosure: str
    certificate_id: str | None


class EpisodeView(NamedTuple):
    """One recorded episode without what was asked and answered."""

    seq: int
    episode_id: str
    invocation_status: str
    outcome: str
    latency_ms: int | None
    scores: dict[str, Any]
    scored_at: datetime


_EPISODE = TheatreEpisodeScore.columns(
    "scores_json" if name == "scores" else name for name in EpisodeView._fields
)


async def find_disclosed_theatre(
    connection: AsyncConnection, theatre_id: str, *, reader: str | None
) -> DisclosedTheatre | None:
    """Return a theatre of the reader, or one that is resolved; None for any other."""
    query = (
        select(Theatre.id, Theatre.user_id, Theatre.state, DISCLOSURE, Theatre.certificate_id)
        .join(TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256)
        .where(
            and_(
                Theatre.id == theatre_id, or_(Theatre.user_id == reader, Theatre.state.in_(_ENDED))
            )
        )
    )
    row = (await connection.execute(query)).first()
    if row is None:
        return None
    own_id, user_id, state, disclosed, certificate_id = row
    return DisclosedTheatre(own_id, user_id == reader, state, disclosed, certificate_id)


async def find_audit_entries(
    connection: AsyncConnection, theatre_id: str, window: NumberedWindow
) -> Page[bytes]:
    """Return a page of the audit chain in order, each entry as its canonical line."""
    table = TheatreAuditEvent
    own = table.theatre_id == theatre_id
    found = await connection.execute(in_order(select(table.entry).where(own), window, table.seq))
    return Page(list(found.scalars()), await count_rows(connection, table, own))


async def find_resolution(connection: AsyncConnection, theatre_id: str) -> JsonObject | None:
    """Return the detail of the entry with which a theatre was resolved; None before it."""
    table = TheatreAuditEvent
    query = select(table.detail_json).where(
        table.theatre_id == theatre_id, table.event_type == "resolved"
    )
    newest_first = query.order_by(table.seq.desc()).limit(1)
    found: JsonObject | None = (await connection.execute(newest_first)).scalar_one_or_none()
    return found


async def find_details(
    connection: AsyncConnection, theatre_id: str, seqs: Sequence[int]
) -> dict[int, JsonObject]:
    """Return the details of some audit entries of a theatre."""
    table = TheatreAuditEvent
    query = select(table.seq, table.detail_json).where(
        table.theatre_id == theatre_id, table.seq.in_(seqs)
    )
    return {row.seq: row.detail_json for row in await connection.execute(query)}


async def find_journal_lines(
    connection: AsyncConnection, theatre_id: str, seqs: Sequence[int]
) -> dict[int, bytes]:
    """Return the journal's lines of some episodes of a theatre."""
    table = TheatreEpisodeScore
    query = select(table.seq, table.line).where(table.theatre_id == theatre_id, table.seq.in_(seqs))
    return {row.seq: row.line for row in await connection.execute(query)}


async def find_episodes(
    connection: AsyncConnection, theatre_id: str, window: NumberedWindow
) -> Page[EpisodeView]:
    """Return a page of the recorded episodes in dataset order."""
    table = TheatreEpisodeScore
    own = table.theatre_id == theatre_id
    found = await connection.execute(in_order(select(*_EPISODE).where(own), window, table.seq))
    total = await count_rows(connection, table, own)
    return Page([EpisodeView._make(row) for row in found], total)


async def find_episode(
    connection: AsyncConnection, theatre_id: str, episode_id: str
) -> tuple[EpisodeView, bytes] | None:
    """Return an episode and the journal's line of it; None where none is recorded."""
    table = TheatreEpisodeScore
    query = (
        select(*_EPISODE, table.line)
        .where(table.theatre_id == theatre_id, table.episode_id == episode_id)
        .order_by(table.seq)
        .limit(1)
    )
    row = (await connection.execute(query)).first()
    return None if row is None else (EpisodeView._make(row[:-1]), row[-1])


async def export_sha256(connection: AsyncConnection, theatre_id: str) -> str | None:
    """Return the SHA-256 of the export that archived a theatre; None before that."""
    table = TheatreAuditEvent
    query = select(table.detail_json["export_sha256"].astext).where(
        table.theatre_id == theatre_id, table.event_type == "archived"
    )
    found: str | None = (await connection.execute(query)).scalar_one_or_none()
    return found


# Which archive in the evidence store is a theatre's sealed bundle.


class BundleArchive(NamedTuple):
    """The archive: the SHA-256 of its bytes, and how many there are."""

    sha256: str
    size_bytes: int


async def insert_bundle(
    connection: AsyncConnection, theatre_id: str, archive: BundleArchive, *, at: datetime
) -> None:
    """Name the archive, in the transaction of the event `sealed`; IntegrityError for a second."""
    row = {"theatre_id": theatre_id, "sealed_at": at, **archive._asdict()}
    await connection.execute(insert(SealedBundle), row)


async def find_bundle(connection: AsyncConnection, theatre_id: str) -> BundleArchive | None:
    """Return the archive of a theatre; None before its run was sealed."""
    table = SealedBundle
    query = select(*table.columns(BundleArchive._fields)).where(table.theatre_id == theatre_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else BundleArchive._make(row)


# All stored rows of a theatre, for fsck.


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
