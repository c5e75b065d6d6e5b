"""Certificates and routing: public, and never worth more than they are now."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request
from pydantic_core import to_jsonable_python
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import JSONResponse, Response

from backend.api.certificate_cache import CachedDocument
from backend.api.http.access_policy import public, resource_router
from backend.api.http.conditional import FRESH, answer_not_modified
from backend.api.http.idempotency import Reading
from backend.api.http.openapi import DESCRIBED_BY, describe_immutable, describe_tagged
from backend.api.http.pages import NO_NUL, FilterText, Listing, Paging
from backend.api.http.service import get_service
from backend.repositories.certificate_views import CertificateFilter, CertificateView
from backend.schemas.certificates import (
    CertificateDocument,
    CertificatePage,
    CertificateSummary,
    Routing,
)
from backend.services import certificates, routing
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.certificate import TheatreCalibrationCertificate
from theatre.engine.tier_assigner import CertificateStatus, VerificationTier
from theatre.transparency.record import RunPlace

router = resource_router("certificates")
_CACHING = {"Cache-Control": FRESH}
_DOCUMENT = {
    "document": {
        "operationId": "get_certificate_document",
        "parameters": {"certificate_id": "$response.body#/certificate_id"},
    }
}


@router.get(
    "/theatres/{theatre_id}/certificate",
    response_model=CertificateDocument,
    **describe_tagged(links=_DOCUMENT),
)
@public("not-found")
async def get_theatre_certificate(request: Request, theatre_id: UUID, reading: Reading) -> Response:
    """Return the certificate of a theatre, its tier as it is now."""
    return await _shown(request, reading, theatre_id=str(theatre_id))


@router.get(
    "/certificates/{certificate_id}",
    response_model=CertificateDocument,
    **describe_tagged(links=_DOCUMENT),
)
@public("not-found")
async def get_certificate(request: Request, certificate_id: UUID, reading: Reading) -> Response:
    """Return a certificate, its tier as it is now."""
    return await _shown(request, reading, certificate_id=str(certificate_id))


@router.get(
    "/certificates/{certificate_id}/document",
    response_class=Response,
    **describe_immutable(TheatreCalibrationCertificate, "The certificate", **DESCRIBED_BY),
)
@public("not-found")
async def get_certificate_document(
    request: Request, certificate_id: UUID, reading: Reading
) -> Response:
    """Return the file that was issued, byte for byte `certificate.json` of the bundle.

    That is the canonical form and a line feed; `document_sha256` is over the canonical form.
    """
    found = await certificates.certificate_document(reading, str(certificate_id))
    kept = CachedDocument.of(str(certificate_id), found.document, found.document_sha256)
    get_service(request).certificates.put(kept)
    return kept.answer(request)


@router.get("/certificates", response_model=CertificatePage)
@public()
async def list_certificates(
    request: Request,
    reading: Reading,
    asked: Paging,
    *,
    construct_id: FilterText = None,
    construct_version: FilterText = None,
    tier: VerificationTier | None = None,
    status: CertificateStatus | None = None,
) -> Response:
    """List certificates, the newest first; `tier` and `status` are those of now."""
    service = get_service(request)
    wanted = CertificateFilter(
        construct_id=construct_id, construct_version=construct_version, tier=tier, status=status
    )
    listing = Listing("certificates", (construct_id, construct_version, tier, status))
    page = await certificates.list_certificates(
        reading, wanted, asked.window(listing), resources=service.resources, now=service.clock()
    )
    shown = CertificatePage(
        certificates=[
            certificate_summary(view, worth)
            for view, worth in page.rows
            if wanted.admits(worth.effective.tier, worth.effective.status)
        ],
        **asked.shown(listing, page, lambda last: last[0].place),
    )
    return JSONResponse(shown.model_dump(mode="json"), headers=_CACHING)


@router.get("/constructs/{construct_id:name}/routing", response_model=Routing)
@public()
async def get_routing(
    request: Request,
    construct_id: Annotated[str, Path(max_length=255, pattern=NO_NUL)],
    reading: Reading,
    *,
    construct_version: FilterText = None,
    declared_review: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Return how far a construct is trusted now; UNVERIFIED for an unknown one."""
    shown = await routing_document(
        request,
        reading,
        construct_id,
        construct_version=construct_version,
        declared_review=declared_review,
    )
    return JSONResponse(shown.model_dump(mode="json"), headers=_CACHING)


async def routing_document(
    request: Request,
    reading: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None = None,
    declared_review: str | None = None,
) -> Routing:
    """Return how far a construct is trusted now."""
    service = get_service(request)
    return await routing.route(
        reading,
        construct_id,
        construct_version=construct_version,
        declared_review=declared_review,
        resources=service.resources,
        records=service.run_records,
        now=service.clock(),
    )


async def _shown(request: Request, reading: AsyncConnection, **named: str) -> Response:
    service = get_service(request)
    read = await certificates.read_certificate(
        reading, resources=service.resources, now=service.clock(), **named
    )
    effective = read.worth.effective
    # Weak: `as_of` changes with every reading.
    parts = (read.sha256, effective.tier, effective.status, "+".join(effective.reasons))
    etag = f'W/"{".".join(parts)}.{sha256_hex(str(read.worth.run).encode())[:16]}"'
    shown = certificate_view(read)
    return answer_not_modified(request, etag, **_CACHING) or JSONResponse(
        shown, headers={"ETag": etag, **_CACHING}
    )


def certificate_view(read: certificates.ReadCertificate) -> dict[str, object]:
    """Return a certificate as one is shown: its fields, and what it is worth now."""
    return {
        **read.document,
        **_status_fields(read.view, read.worth),
        "as_of": to_jsonable_python(read.worth.effective.as_of),
        "document_sha256": read.sha256,
    }


def _run_fields(run: RunPlace) -> dict[str, object]:
    others = run.others.as_document()
    return {"number": run.number, "of": run.of, "others": others, "text": str(run)}


def certificate_summary(
    view: CertificateView, worth: certificates.CurrentStatus
) -> CertificateSummary:
    """Return a certificate as lists show it."""
    stored = view.stored
    return CertificateSummary.model_validate(
        {
            "certificate_id": stored.id,
            "theatre_id": stored.theatre_id,
            "template_id": stored.template_id,
            "construct_id": stored.construct_id,
            "construct_version": stored.construct_version,
            "composite_score": stored.composite_score,
            **_status_fields(view, worth),
            "findings": list(worth.signature.findings),
            "replay_count": stored.replay_count,
            "issued_at": stored.issued_at,
            "expires_at": stored.expires_at,
        }
    )


def _status_fields(view: CertificateView, worth: certificates.CurrentStatus) -> dict[str, object]:
    effective = worth.effective
    return {
        "verification_tier": effective.tier.value,
        "effective_tier": effective.tier.value,
        "issued_verification_tier": effective.issued_tier.value,
        "status": effective.status.value,
        "reasons": list(effective.reasons),
        "run_by": worth.run_by,
        "owner_confirmed": worth.owner_confirmed,
        "template_accepted": worth.template_accepted,
        "run": None if worth.run is None else _run_fields(worth.run),
        "disclosure": view.disclosure,
        "episodes_withheld": worth.episodes_withheld,
    }
