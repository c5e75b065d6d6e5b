"""Certificates as they read now: the tier decays with time, the document never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.certificate_views import (
    CertificateBytes,
    CertificateFilter,
    CertificateView,
    certificate_bytes,
    certificates_of,
    count_certificates,
)
from backend.repositories.theatre_views import Place
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.engine.tier_assigner import (
    EffectiveTier,
    IssuedCertificateFacts,
    TierAssigner,
    TierHistory,
    VerificationTier,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCertificate:
    """A certificate's document, and what it is worth now."""

    document: JsonObject
    sha256: str
    effective: EffectiveTier


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateList:
    """A page of certificates, each with what it is worth now."""

    certificates: Sequence[tuple[CertificateView, EffectiveTier]]
    total: int


async def certificate_document(
    connection: AsyncConnection, *, certificate_id: str | None = None, theatre_id: str | None = None
) -> CertificateBytes:
    """Return the exact bytes of a certificate, by its id or its theatre; else NotFoundError."""
    found = await certificate_bytes(
        connection, certificate_id=certificate_id, theatre_id=theatre_id
    )
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    return found


async def read_certificate(
    connection: AsyncConnection,
    *,
    certificate_id: str | None = None,
    theatre_id: str | None = None,
    now: datetime,
) -> ReadCertificate:
    """Return a certificate and what it is worth now; NotFoundError where there is none."""
    found = await certificate_document(
        connection, certificate_id=certificate_id, theatre_id=theatre_id
    )
    document = parse_object(found.document)
    effective = effective_tier(
        construct_id=cast("str", document["construct_id"]),
        construct_version=cast("str", document["construct_version"]),
        tier=cast("str", document["verification_tier"]),
        issued_at=parse_rfc3339(cast("str", document["issued_at"])),
        resolved_at=parse_rfc3339(cast("str", document["theatre_resolved_at"])),
        now=now,
    )
    return ReadCertificate(document=document, sha256=found.document_sha256, effective=effective)


async def list_certificates(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    *,
    now: datetime,
    limit: int,
    offset: int,
    after: Place | None,
) -> CertificateList:
    """Return a page of certificates, the newest first."""
    views = await certificates_of(
        connection, wanted, now=now, limit=limit, offset=offset, after=after
    )
    return CertificateList(
        certificates=[(view, worth_of(view, now)) for view in views],
        total=await count_certificates(connection, wanted, now=now),
    )


def effective_tier(
    *,
    construct_id: str,
    construct_version: str,
    tier: str,
    issued_at: datetime,
    resolved_at: datetime,
    now: datetime,
) -> EffectiveTier:
    """Return what an issued tier is worth now. No history is kept yet: time alone decides."""
    issued = IssuedCertificateFacts(
        construct_id=construct_id,
        construct_version=construct_version,
        tier=VerificationTier(tier),
        issued_at=issued_at,
        resolved_at=resolved_at,
    )
    return TierAssigner.effective(issued, TierHistory(), now=now)


def worth_of(view: CertificateView, now: datetime) -> EffectiveTier:
    """Return what a certificate in a list is worth now."""
    return effective_tier(
        construct_id=view.construct_id,
        construct_version=view.construct_version,
        tier=view.verification_tier,
        issued_at=view.issued_at,
        resolved_at=view.theatre_resolved_at,
        now=now,
    )
