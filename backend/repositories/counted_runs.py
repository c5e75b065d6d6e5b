"""Runs that count for routing: of a construct, by its confirmed owner, asked for as certificates.

The statements are made once: making them anew for each request took more than answering it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import String, and_, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import (
    RegisteredConstruct,
    Theatre,
    TheatreCertificate,
    TheatreTemplate,
)

_ENDED = ("RESOLVED", "ARCHIVED")


class CountedRun(NamedTuple):
    """How a run ended that counts for routing; the certificate's columns are null without one."""

    outcome: str
    outcome_reason: str | None
    certificate_id: str | None
    construct_version: str | None
    verification_tier: str | None
    issued_at: datetime | None
    theatre_resolved_at: datetime | None
    expires_at: datetime | None


async def templates_of_owner(
    connection: AsyncConnection, construct_id: str
) -> Sequence[str] | None:
    """Return the SHA-256 of what the confirmed owner of a construct ran it on; None without one."""
    row = (await connection.execute(_TEMPLATES, {"construct_id": construct_id})).first()
    return None if row is None else row[0]


async def template_documents(
    connection: AsyncConnection, sha256s: Collection[str]
) -> dict[str, bytes]:
    """Return the bytes of templates by their SHA-256."""
    found = await connection.execute(_DOCUMENTS, {"templates": list(sha256s)})
    return {row.sha256: row.document for row in found}


async def newest_run(
    connection: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None,
    templates: Collection[str],
) -> CountedRun | None:
    """Return how the newest run of a construct, by its owner and on `templates`, ended."""
    wanted = {"construct_id": construct_id, "templates": list(templates)}
    if construct_version is None:
        found = await connection.execute(_NEWEST, wanted)
    else:
        version = {"construct_version": construct_version}
        found = await connection.execute(_NEWEST_OF_A_VERSION, wanted | version)
    row = found.first()
    return None if row is None else CountedRun._make(row)


_construct_id = bindparam("construct_id", type_=String)
_templates = any_(bindparam("templates", type_=ARRAY(String)))
_pinned = func.jsonb_extract_path_text(Theatre.version_pins, "constructs", Theatre.construct_id)
_is_owners = and_(
    RegisteredConstruct.construct_id == Theatre.construct_id,
    RegisteredConstruct.user_id == Theatre.user_id,
    RegisteredConstruct.confirmed_at.is_not(None),
)
_counted = and_(Theatre.state.in_(_ENDED), Theatre.is_certificate_run.is_(True))
_TEMPLATES = select(
    func.array(
        select(Theatre.template_sha256).where(_is_owners, _counted).distinct().scalar_subquery()
    )
).where(
    RegisteredConstruct.construct_id == _construct_id,
    RegisteredConstruct.confirmed_at.is_not(None),
)
_DOCUMENTS = select(TheatreTemplate.sha256, TheatreTemplate.document).where(
    TheatreTemplate.sha256 == _templates
)
_NEWEST = (
    select(
        Theatre.outcome,
        Theatre.outcome_reason,
        Theatre.certificate_id,
        _pinned,
        TheatreCertificate.verification_tier,
        TheatreCertificate.issued_at,
        TheatreCertificate.theatre_resolved_at,
        TheatreCertificate.expires_at,
    )
    .join(RegisteredConstruct, _is_owners)
    .outerjoin(TheatreCertificate, TheatreCertificate.id == Theatre.certificate_id)
    .where(Theatre.construct_id == _construct_id, _counted, Theatre.template_sha256 == _templates)
    .order_by(Theatre.resolved_at.desc(), Theatre.id.desc())
    .limit(1)
)
_NEWEST_OF_A_VERSION = _NEWEST.where(_pinned == bindparam("construct_version", type_=String))
