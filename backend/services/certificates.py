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
from backend.services.transparency.publication import places_of_runs
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.episode_root import count_withheld
from theatre.engine.errors import NotFoundError
from theatre.engine.templates import Withheld
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
    run: RunPlace | None
    """Which of the logged runs of its version it is."""
    episodes_withheld: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCertificate:
    """A certificate's document, and what it is worth now."""

    view: CertificateView
    document: JsonObject
    sha256: str
    worth: CurrentStatus


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
    ((_, worth),) = await with_status(connection, [found.view], now=now)
    return ReadCertificate(
        view=found.view,
        document=parse_object(found.document),
        sha256=found.document_sha256,
        worth=worth,
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
    return Page(await with_status(connection, views, now=now), total)


async def with_status(
    connection: AsyncConnection, views: Sequence[CertificateView], *, now: datetime
) -> list[tuple[CertificateView, CurrentStatus]]:
    """Return certificates with what each is worth now; their runs are counted in one statement."""
    places = await places_of_runs(connection, [view.theatre_id for view in views], now=now)
    return [(view, _current_status(view, now, places.get(view.theatre_id))) for view in views]


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


def _current_status(view: CertificateView, now: datetime, run: RunPlace | None) -> CurrentStatus:
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
        run=run,
        episodes_withheld=_count_withheld(view),
    )


def _count_withheld(view: CertificateView) -> int:
    if view.disclosure == "hashes":
        return view.total_episodes
    if view.withheld is None:
        return 0
    return count_withheld(Withheld.model_validate(view.withheld), view.total_episodes)
