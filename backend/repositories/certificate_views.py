"""Certificates as anybody reads them: the bytes, and the columns that lists and routing need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, any_, case, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import (
    RegisteredConstruct,
    Theatre,
    TheatreCertificate,
    TheatreTemplate,
)
from backend.repositories.theatre_views import Place

_SHOWN = (
    TheatreCertificate.id,
    TheatreCertificate.theatre_id,
    TheatreCertificate.template_id,
    TheatreCertificate.construct_id,
    TheatreCertificate.construct_version,
    TheatreCertificate.composite_score,
    TheatreCertificate.verification_tier,
    TheatreCertificate.replay_count,
    TheatreCertificate.issued_at,
    TheatreCertificate.expires_at,
    TheatreCertificate.theatre_resolved_at,
)
_UNVERIFIED = "UNVERIFIED"
_ENDED = ("RESOLVED", "ARCHIVED")


class CertificateView(NamedTuple):
    """The columns of a certificate that a list shows."""

    id: str
    theatre_id: str
    template_id: str
    construct_id: str
    construct_version: str
    composite_score: float | None
    verification_tier: str
    replay_count: int
    issued_at: datetime
    expires_at: datetime | None
    theatre_resolved_at: datetime


class CertificateBytes(NamedTuple):
    """A certificate and its SHA-256."""

    document: bytes
    document_sha256: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFilter:
    """Which certificates are listed; None does not restrict. `tier` is the effective one."""

    construct_id: str | None = None
    construct_version: str | None = None
    tier: str | None = None
    expired: bool | None = None


async def certificate_bytes(
    connection: AsyncConnection, *, certificate_id: str | None = None, theatre_id: str | None = None
) -> CertificateBytes | None:
    """Return a certificate by its id or by its theatre; None where there is none."""
    query = select(TheatreCertificate.document, TheatreCertificate.document_sha256)
    if certificate_id is not None:
        query = query.where(TheatreCertificate.id == certificate_id)
    else:
        query = query.where(TheatreCertificate.theatre_id == theatre_id)
    row = (await connection.execute(query)).first()
    return None if row is None else CertificateBytes._make(row)


async def certificates_of(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    *,
    now: datetime,
    limit: int,
    offset: int,
    after: Place | None,
) -> Sequence[CertificateView]:
    """Return a page of certificates, the newest first."""
    query = select(*_SHOWN).where(_listed(wanted, now))
    if after is not None:
        place = tuple_(after.created_at, literal(after.id, TheatreCertificate.id.type))
        query = query.where(tuple_(TheatreCertificate.issued_at, TheatreCertificate.id) < place)
    newest_first = (TheatreCertificate.issued_at.desc(), TheatreCertificate.id.desc())
    found = await connection.execute(query.order_by(*newest_first).limit(limit).offset(offset))
    return [CertificateView._make(row) for row in found]


async def count_certificates(
    connection: AsyncConnection, wanted: CertificateFilter, *, now: datetime
) -> int:
    """Return how many certificates there are."""
    query = select(func.count()).select_from(TheatreCertificate).where(_listed(wanted, now))
    return int((await connection.execute(query)).scalar_one())


async def templates_of_owner(
    connection: AsyncConnection, construct_id: str
) -> Sequence[tuple[str, bytes]]:
    """Return SHA-256 and bytes of what the confirmed owner of a construct ran it on."""
    query = (
        select(TheatreTemplate.sha256, TheatreTemplate.document)
        .join(Theatre, Theatre.template_sha256 == TheatreTemplate.sha256)
        .join(RegisteredConstruct, _is_owners())
        .where(_counted(construct_id))
        .distinct()
    )
    return [(row.sha256, row.document) for row in await connection.execute(query)]


async def newest_run(
    connection: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None,
    templates: Collection[str],
) -> CountedRun | None:
    """Return how the newest run of a construct, by its owner and on `templates`, ended."""
    certificate = TheatreCertificate
    query = (
        select(
            Theatre.outcome,
            Theatre.outcome_reason,
            Theatre.certificate_id,
            Theatre.version_pins["constructs"][construct_id].astext,
            certificate.verification_tier,
            certificate.issued_at,
            certificate.theatre_resolved_at,
            certificate.expires_at,
        )
        .join(RegisteredConstruct, _is_owners())
        .outerjoin(certificate, certificate.id == Theatre.certificate_id)
        .where(_counted(construct_id), Theatre.template_sha256 == any_(literal(list(templates))))
        .order_by(Theatre.resolved_at.desc(), Theatre.id.desc())
        .limit(1)
    )
    if construct_version is not None:
        pinned = Theatre.version_pins["constructs"][construct_id].astext
        query = query.where(pinned == construct_version)
    row = (await connection.execute(query)).first()
    return None if row is None else CountedRun._make(row)


def _is_owners() -> ColumnElement[bool]:
    return and_(
        RegisteredConstruct.construct_id == Theatre.construct_id,
        RegisteredConstruct.user_id == Theatre.user_id,
        RegisteredConstruct.confirmed_at.is_not(None),
    )


def _counted(construct_id: str) -> ColumnElement[bool]:
    return and_(
        Theatre.construct_id == construct_id,
        Theatre.state.in_(_ENDED),
        Theatre.is_certificate_run.is_(True),
    )


def _listed(wanted: CertificateFilter, now: datetime) -> ColumnElement[bool]:
    certificate = TheatreCertificate
    expired = func.coalesce(certificate.expires_at <= now, literal(value=False))
    conditions: list[ColumnElement[bool]] = [literal(value=True)]
    if wanted.construct_id is not None:
        conditions.append(certificate.construct_id == wanted.construct_id)
    if wanted.construct_version is not None:
        conditions.append(certificate.construct_version == wanted.construct_version)
    if wanted.tier is not None:
        effective = case((expired, _UNVERIFIED), else_=certificate.verification_tier)
        conditions.append(effective == wanted.tier)
    if wanted.expired is not None:
        conditions.append(expired == wanted.expired)
    return and_(*conditions)
