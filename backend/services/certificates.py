"""Certificates with their current status: it changes, the document never does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.certificate_views import (
    CertificateBytes,
    CertificateFilter,
    CertificateView,
    count_certificates,
    find_certificate,
    find_certificate_bytes,
    find_certificates,
)
from backend.repositories.counted_runs import (
    OWNER_NOT_CONFIRMED,
    TEMPLATE_NOT_ACCEPTED,
)
from backend.repositories.pages import Page, Window
from backend.services.transparency.publication import place_of_run
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.tier_assigner import (
    EffectiveTier,
    IssuedCertificateFacts,
    TierAssigner,
    TierHistory,
    VerificationTier,
)
from theatre.transparency.record import RunPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStatus:
    """The current status of a certificate: its effective tier, its user and template."""

    effective: EffectiveTier
    run_by: str
    owner_confirmed: bool
    template_accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCertificate:
    """A certificate's document, and what it is worth now."""

    document: JsonObject
    sha256: str
    worth: CurrentStatus
    run: RunPlace | None
    """Which of the logged runs of its version it is."""


async def certificate_document(
    connection: AsyncConnection, certificate_id: str
) -> CertificateBytes:
    """Return the exact bytes of a certificate; NotFoundError where there is none."""
    found = await find_certificate_bytes(connection, certificate_id)
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    return found


async def read_certificate(
    connection: AsyncConnection,
    *,
    certificate_id: str | None = None,
    theatre_id: str | None = None,
    accepted: Sequence[str],
    now: datetime,
) -> ReadCertificate:
    """Return a certificate, by its id or its theatre, and what it is worth now.

    NotFoundError where there is none.
    """
    found = await find_certificate(
        connection, certificate_id=certificate_id, theatre_id=theatre_id, accepted=accepted
    )
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    return ReadCertificate(
        document=parse_object(found.document),
        sha256=found.document_sha256,
        worth=current_status(found.view, now),
        run=await place_of_run(connection, found.view.theatre_id, now=now),
    )


async def list_certificates(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    window: Window,
    *,
    accepted: Sequence[str],
    now: datetime,
) -> Page[tuple[CertificateView, CurrentStatus]]:
    """Return a page of certificates, each with what it is worth now, the newest first."""
    views = await find_certificates(connection, wanted, window, now=now, accepted=accepted)
    total = await count_certificates(connection, wanted, now=now, accepted=accepted)
    return Page([(view, current_status(view, now)) for view in views], total)


def effective_tier(
    *,
    construct_id: str,
    construct_version: str,
    tier: str,
    issued_at: datetime,
    resolved_at: datetime,
    objections: Sequence[str],
    now: datetime,
) -> EffectiveTier:
    """Return the effective tier of an issued one: UNVERIFIED where there is an objection.

    No history is stored yet: for a run that counts, only expiry decides.
    """
    issued = IssuedCertificateFacts(
        construct_id=construct_id,
        construct_version=construct_version,
        tier=VerificationTier(tier),
        issued_at=issued_at,
        resolved_at=resolved_at,
    )
    effective = TierAssigner.effective(issued, TierHistory(), now=now)
    if not objections:
        return effective
    return replace(
        effective,
        tier=VerificationTier.UNVERIFIED,
        reasons=(*objections, *effective.reasons),
    )


def current_status(view: CertificateView, now: datetime) -> CurrentStatus:
    """Return what a certificate is worth now."""
    effective = effective_tier(
        construct_id=view.construct_id,
        construct_version=view.construct_version,
        tier=view.verification_tier,
        issued_at=view.issued_at,
        resolved_at=view.theatre_resolved_at,
        objections=view.objections,
        now=now,
    )
    return CurrentStatus(
        effective=effective,
        run_by=view.run_by,
        owner_confirmed=OWNER_NOT_CONFIRMED not in view.objections,
        template_accepted=TEMPLATE_NOT_ACCEPTED not in view.objections,
    )
