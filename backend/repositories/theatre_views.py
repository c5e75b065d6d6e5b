"""Theatres as their owner reads them. Every statement has the owner in its WHERE clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, bindparam, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre

_SHOWN = (
    Theatre.id,
    Theatre.template_id,
    Theatre.template_sha256,
    Theatre.construct_id,
    Theatre.state,
    Theatre.version,
    Theatre.commitment_hash,
    Theatre.committed_at,
    Theatre.is_certificate_run,
    Theatre.run_status,
    Theatre.progress,
    Theatre.total_episodes,
    Theatre.failure_count,
    Theatre.refused_count,
    Theatre.pending_step,
    Theatre.error,
    Theatre.started_at,
    Theatre.heartbeat_at,
    Theatre.outcome,
    Theatre.outcome_reason,
    Theatre.resolved_at,
    Theatre.certificate_id,
    Theatre.created_at,
    Theatre.updated_at,
)


class TheatreView(NamedTuple):
    """What is shown of a theatre; the columns of the same names."""

    id: str
    template_id: str
    template_sha256: str
    construct_id: str | None
    state: str
    version: int
    commitment_hash: str | None
    committed_at: datetime | None
    is_certificate_run: bool | None
    run_status: str | None
    progress: int
    total_episodes: int
    failure_count: int
    refused_count: int
    pending_step: str | None
    error: str | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    outcome: str | None
    outcome_reason: str | None
    resolved_at: datetime | None
    certificate_id: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TheatreFilter:
    """Which theatres are listed; None does not restrict."""

    state: str | None = None
    construct_id: str | None = None
    template_id: str | None = None


class Place(NamedTuple):
    """Where a page ends: the next one begins behind it."""

    created_at: datetime
    id: str


async def find_theatre_view(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> TheatreView | None:
    """Return a theatre of a user; None where it is not theirs."""
    own = {"theatre_id": theatre_id, "user_id": user_id}
    row = (await connection.execute(_OWN, own)).first()
    return None if row is None else TheatreView._make(row)


async def find_theatre_views(
    connection: AsyncConnection,
    *,
    user_id: str,
    wanted: TheatreFilter,
    limit: int,
    offset: int,
    after: Place | None,
) -> Sequence[TheatreView]:
    """Return a page of a user's theatres, the newest first."""
    query = select(*_SHOWN).where(_listed(user_id, wanted))
    if after is not None:
        place = tuple_(after.created_at, literal(after.id, Theatre.id.type))
        query = query.where(tuple_(Theatre.created_at, Theatre.id) < place)
    newest_first = (Theatre.created_at.desc(), Theatre.id.desc())
    found = await connection.execute(query.order_by(*newest_first).limit(limit).offset(offset))
    return [TheatreView._make(row) for row in found]


async def count_theatres(
    connection: AsyncConnection, *, user_id: str, wanted: TheatreFilter
) -> int:
    """Return how many theatres of a user there are."""
    query = select(func.count()).select_from(Theatre).where(_listed(user_id, wanted))
    return int((await connection.execute(query)).scalar_one())


_OWN = select(*_SHOWN).where(
    Theatre.id == bindparam("theatre_id"), Theatre.user_id == bindparam("user_id")
)


def _listed(user_id: str, wanted: TheatreFilter) -> ColumnElement[bool]:
    conditions = [Theatre.user_id == user_id]
    for column, value in (
        (Theatre.state, wanted.state),
        (Theatre.construct_id, wanted.construct_id),
        (Theatre.template_id, wanted.template_id),
    ):
        if value is not None:
            conditions.append(column == value)
    return and_(*conditions)
