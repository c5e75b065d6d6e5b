"""The transparency log as static files, the issuer's keys, and records of constructs: public.

Paths and bytes of `/log/…` are those of C2SP tlog-tiles. Source: docs/contract/trust.md §2, §4.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Path, Request
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import JSONResponse, Response

from backend.api.http.access_policy import public, resource_router
from backend.api.http.bodies import JSON
from backend.api.http.conditional import FRESH, IMMUTABLE, describedby_header, hashed_response
from backend.api.http.idempotency import Reading
from backend.api.http.openapi import DESCRIBED_BY, describe_bytes
from backend.api.http.pages import NO_NUL, FilterText
from backend.api.http.service import get_service
from backend.repositories.transparency_log import count_audits
from backend.schemas.transparency import ConstructRecord
from backend.services.transparency import publication
from theatre.engine.canonical_json import sha256_hex
from theatre.transparency.statements import BUNDLE_TYPE

router = resource_router("transparency")
_LATEST = "public, max-age=1"
"""For the checkpoint: the log grows once a second at most."""
_TEXT = "text/plain; charset=utf-8"
_OCTETS = "application/octet-stream"
_SHA256 = r"^[0-9a-f]{64}$"


@router.get(
    "/.well-known/echelon/trust.json",
    response_class=Response,
    **describe_bytes(JSON, description="The keys, the log and its witnesses"),
)
@public("not-found")
async def get_trust(request: Request, reading: Reading) -> Response:
    """Return what a reader needs to trust this issuer: take it once, keep it, and compare."""
    data = await publication.read_trust(reading)
    return _send(request, data, media_type=JSON, caching=FRESH)


@router.get(
    "/log/checkpoint",
    response_class=Response,
    **describe_bytes("text/plain", description="The signed checkpoint"),
)
@public("not-found")
async def get_checkpoint(request: Request, reading: Reading) -> Response:
    """Return the newest checkpoint of the log, a signed note."""
    data = await publication.read_log_file(reading, "checkpoint")
    return _send(request, data, media_type=_TEXT, caching=_LATEST)


@router.get(
    "/log/tile/{path:path}",
    response_class=Response,
    **describe_bytes(_OCTETS, description="The tile"),
)
@public("not-found")
async def get_tile(
    request: Request, path: Annotated[str, Path(max_length=100)], reading: Reading
) -> Response:
    """Return a tile of hashes (`0/000`), a bundle of entries (`entries/000`), or part of one."""
    data = await publication.read_log_file(reading, f"tile/{path}")
    return _send(request, data, media_type=_OCTETS, caching=IMMUTABLE)


@router.get(
    "/log/proof/{statement_sha256}",
    response_class=Response,
    **describe_bytes("text/plain", description="A tlog-proof"),
)
@public("not-found")
async def get_proof(
    request: Request, statement_sha256: Annotated[str, Path(pattern=_SHA256)], reading: Reading
) -> Response:
    """Return the proof that the log has a certificate, by the hash of its signed statement."""
    data = await publication.certificate_proof(reading, statement_sha256)
    return _send(request, data, media_type=_TEXT, caching=FRESH)


@router.get(
    "/certificates/{certificate_id}/sigstore",
    response_class=Response,
    **describe_bytes(BUNDLE_TYPE, description="The signed certificate", **DESCRIBED_BY),
)
@public("not-found")
async def get_signed_certificate(
    request: Request, certificate_id: UUID, reading: Reading
) -> Response:
    """Return the certificate as it was signed: a Sigstore bundle with one DSSE envelope."""
    data = await publication.signed_certificate(reading, str(certificate_id))
    sent = _send(request, data, media_type=BUNDLE_TYPE, caching=IMMUTABLE)
    sent.headers.update(describedby_header(f"/certificates/{certificate_id}"))
    return sent


@router.get("/constructs/{construct_id:name}/record", response_model=ConstructRecord)
@public()
async def get_record(
    request: Request,
    construct_id: Annotated[str, Path(max_length=255, pattern=NO_NUL)],
    reading: Reading,
    *,
    construct_version: FilterText = None,
) -> Response:
    """Return what came of every logged run of a construct by any user; zeros for an unknown."""
    now = get_service(request).clock()
    shown = await record_document(reading, construct_id, construct_version, now=now)
    return JSONResponse(shown.model_dump(mode="json"), headers={"Cache-Control": FRESH})


async def record_document(
    reading: AsyncConnection, construct_id: str, construct_version: str | None, *, now: datetime
) -> ConstructRecord:
    """Return the record of a construct, or of one version of it."""
    counts, versions = await publication.construct_record(
        reading, construct_id, construct_version, now=now
    )
    audits = await count_audits(reading, construct_id, construct_version, now=now)
    return ConstructRecord.model_validate(
        {
            "audits": audits._asdict(),
            **counts.as_document(),
            "construct_id": construct_id,
            "construct_version": construct_version,
            "versions": [
                {"construct_version": version, **one.as_document()}
                for version, one in versions.items()
            ],
            "as_of": now,
        }
    )


def _send(request: Request, data: bytes, *, media_type: str, caching: str) -> Response:
    sha256 = sha256_hex(data)
    return hashed_response(request, data, sha256=sha256, media_type=media_type, caching=caching)
