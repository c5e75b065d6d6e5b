"""Certificates with their current status: it changes, the document never does.

`with_status` is the one place that turns a stored certificate into what it is worth: signature,
state of the key, lapse and objections. Every list, view, page and badge reads it there; routing,
which has no list, asks `effective_tier` of the same signature.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from backend.repositories.counted_runs import OWNER_NOT_CONFIRMED, TEMPLATE_NOT_ACCEPTED
from backend.repositories.pages import Page, Window
from backend.repositories.stored_certificates import StoredCertificate
from backend.services.resources import TheatreResources
from backend.services.transparency.publication import places_of_runs
from backend.services.transparency.signatures import VerifiedSignature
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
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
from theatre.pages.wording import NOT_SIGNED
from theatre.transparency.record import RunPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStatus:
    """The current status of a certificate: its effective tier, its user and template."""

    effective: EffectiveTier
    signature: VerifiedSignature
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
    connection: AsyncConnection, *, resources: TheatreResources, now: datetime, **named: str
) -> ReadCertificate:
    """Return a certificate, `named` as `find_certificate` has it, and what it is worth now.

    NotFoundError where there is none.
    """
    accepted = resources.accepted_templates.content_hashes
    found = await find_certificate(connection, accepted=accepted, **named)
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    # The columns are held to the signed document: so that this one is, its bytes decide.
    sha256 = sha256_hex(found.document)
    view = found.view._replace(stored=found.view.stored._replace(document_sha256=sha256))
    ((view, worth),) = await with_status(connection, [view], resources=resources, now=now)
    return ReadCertificate(
        view=view, document=parse_object(found.document), sha256=sha256, worth=worth
    )


async def list_certificates(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    window: Window,
    *,
    resources: TheatreResources,
    now: datetime,
) -> Page[tuple[CertificateView, CurrentStatus]]:
    """Return a page of certificates, each with what it is worth now, the newest first.

    They are found by their columns: `CertificateFilter.admits` says which of them to show.
    """
    accepted = resources.accepted_templates.content_hashes
    views = await find_certificates(connection, wanted, window, now=now, accepted=accepted)
    total = await count_certificates(connection, wanted, now=now, accepted=accepted)
    return Page(await with_status(connection, views, resources=resources, now=now), total)


async def with_status(
    connection: AsyncConnection,
    views: Sequence[CertificateView],
    *,
    resources: TheatreResources,
    now: datetime,
) -> list[tuple[CertificateView, CurrentStatus]]:
    """Return certificates with what each is worth now; their runs are counted in one statement.

    Of one that was not signed so, no score, tier or date of the row is shown.
    """
    signatures = await resources.signatures.verify(connection, [view.stored for view in views])
    theatres = [view.stored.theatre_id for view in views]
    places = await places_of_runs(connection, theatres, now=now)
    return [
        (
            view if signature.signed_by else view._replace(stored=view.stored.disowned()),
            _current_status(view, signature, now, places.get(theatre_id)),
        )
        for view, signature, theatre_id in zip(views, signatures, theatres, strict=True)
    ]


def effective_tier(
    stored: StoredCertificate,
    signature: VerifiedSignature,
    *,
    objections: Sequence[str],
    now: datetime,
) -> EffectiveTier:
    """Return what a stored certificate is worth: UNVERIFIED where anything speaks against it.

    Without a signature that counts, nothing was issued. No history is stored yet: for a run that
    counts, only expiry decides.
    """
    if signature.signed_by is None:
        stored, objections = stored.disowned(), (NOT_SIGNED, *objections)
    issued = IssuedCertificateFacts(
        construct_id=stored.construct_id,
        construct_version=stored.construct_version,
        tier=VerificationTier(stored.verification_tier),
        issued_at=stored.issued_at,
        resolved_at=stored.theatre_resolved_at,
    )
    effective = TierAssigner.effective(issued, TierHistory(), now=now)
    if not objections:
        return effective
    return effective._replace(
        tier=VerificationTier.UNVERIFIED, reasons=(*objections, *effective.reasons)
    )


def _current_status(
    view: CertificateView, signature: VerifiedSignature, now: datetime, run: RunPlace | None
) -> CurrentStatus:
    return CurrentStatus(
        effective=effective_tier(view.stored, signature, objections=view.objections, now=now),
        signature=signature,
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
