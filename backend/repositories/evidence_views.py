"""Evidence of a run: for its owner, and public once the theatre is resolved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import (
    Theatre,
    TheatreAuditEvent,
    TheatreEpisodeScore,
    TheatreTemplate,
)
from theatre.engine.canonical_json import JsonObject

_ENDED = ("RESOLVED", "ARCHIVED")
_EPISODE = (
    TheatreEpisodeScore.seq,
    TheatreEpisodeScore.episode_id,
    TheatreEpisodeScore.invocation_status,
    TheatreEpisodeScore.outcome,
    TheatreEpisodeScore.latency_ms,
    TheatreEpisodeScore.scores_json,
    TheatreEpisodeScore.scored_at,
)


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


async def find_disclosed_theatre(
    connection: AsyncConnection, theatre_id: str, *, reader: str | None
) -> DisclosedTheatre | None:
    """Return a theatre of the reader, or one that is resolved; None for any other."""
    disclosure = TheatreTemplate.template_json["product_theatre_config"]["disclosure"].astext
    query = (
        select(
            Theatre.id,
            Theatre.user_id,
            Theatre.state,
            func.coalesce(disclosure, "public"),
            Theatre.certificate_id,
        )
        .join(TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256)
        .where(
            and_(
                Theatre.id == theatre_id,
                or_(Theatre.user_id == reader, Theatre.state.in_(_ENDED)),
            )
        )
    )
    row = (await connection.execute(query)).first()
    if row is None:
        return None
    own_id, user_id, state, disclosed, certificate_id = row
    return DisclosedTheatre(own_id, user_id == reader, state, disclosed, certificate_id)


async def find_audit_entries(
    connection: AsyncConnection, theatre_id: str, *, limit: int, offset: int, after: int | None
) -> Sequence[bytes]:
    """Return a page of the audit chain in order, each entry as its canonical line."""
    table = TheatreAuditEvent
    query = select(table.entry).where(table.theatre_id == theatre_id)
    if after is not None:
        query = query.where(table.seq > after)
    found = await connection.execute(query.order_by(table.seq).limit(limit).offset(offset))
    return list(found.scalars())


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


async def count_entries(connection: AsyncConnection, theatre_id: str) -> int:
    """Return how many audit entries a theatre has."""
    table = TheatreAuditEvent
    query = select(func.count()).select_from(table).where(table.theatre_id == theatre_id)
    return int((await connection.execute(query)).scalar_one())


async def find_episodes(
    connection: AsyncConnection, theatre_id: str, *, limit: int, offset: int, after: int | None
) -> Sequence[EpisodeView]:
    """Return a page of the recorded episodes in dataset order."""
    table = TheatreEpisodeScore
    query = select(*_EPISODE).where(table.theatre_id == theatre_id)
    if after is not None:
        query = query.where(table.seq > after)
    found = await connection.execute(query.order_by(table.seq).limit(limit).offset(offset))
    return [EpisodeView._make(row) for row in found]


async def count_episodes(connection: AsyncConnection, theatre_id: str) -> int:
    """Return how many episodes are recorded."""
    table = TheatreEpisodeScore
    query = select(func.count()).select_from(table).where(table.theatre_id == theatre_id)
    return int((await connection.execute(query)).scalar_one())


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
