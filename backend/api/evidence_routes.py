"""Evidence: for the owner, and public once the theatre is resolved, as far as it discloses."""

import hashlib
from functools import cache
from pathlib import PurePath
from typing import Annotated
from uuid import UUID

from fastapi import Path, Request
from starlette.responses import FileResponse, Response

from backend.api.http.access_policy import Reader, disclosed, public, resource_router
from backend.api.http.conditional import (
    FRESH,
    IMMUTABLE,
    answer_not_modified,
    describedby_header,
    hashed_response,
    normalise_range,
    repr_digest,
)
from backend.api.http.idempotency import Transaction
from backend.api.http.openapi import DESCRIBED_BY, describe_bytes, describe_download
from backend.api.http.pages import NO_NUL, ChainPaging, Listing, chain_page
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Principal, Scope
from backend.schemas.evidence import AuditPage, EpisodePage, EpisodeRecord
from backend.services import evidence
from theatre.engine.bundle_check.verifier import verifier_source

router = resource_router("evidence")
_KINDS = {".json": "application/json", ".jsonl": "application/x-ndjson", ".gz": "application/gzip"}


@router.get(
    "/verify_bundle.py",
    response_class=Response,
    **describe_bytes("text/x-python", description="The program"),
)
@public()
async def get_verifier(request: Request) -> Response:
    """Download the check of bundles as one file of plain Python, which needs nothing installed."""
    source, sha256 = _verifier()
    return hashed_response(
        request, source, sha256=sha256, media_type="text/x-python", caching=FRESH
    )


@cache
def _verifier() -> tuple[bytes, str]:
    source = verifier_source().encode()
    return source, hashlib.sha256(source).hexdigest()


@router.get(
    "/theatres/{theatre_id}/audit-events",
    response_model=AuditPage,
    responses={200: {"headers": DESCRIBED_BY}},
)
@disclosed(Scope.READ, "not-found")
async def list_audit_events(
    reader: Reader, theatre_id: UUID, transaction: Transaction, asked: ChainPaging
) -> Response:
    """List the entries of the audit chain, as they were hashed."""
    listing = Listing("audit-events", (str(theatre_id),))
    page = await evidence.read_audit(
        transaction, str(theatre_id), asked.numbered(listing), reader=_id_of(reader)
    )
    shown = chain_page(asked, listing, page, member="audit_events")
    shown.headers.update(describedby_header(f"/theatres/{theatre_id}/certificate"))
    return shown


@router.get("/theatres/{theatre_id}/episodes")
@disclosed(Scope.READ, "not-found")
async def list_episodes(
    request: Request, reader: Reader, theatre_id: UUID, transaction: Transaction, asked: ChainPaging
) -> EpisodePage:
    """List what became of each recorded episode, of those that are withheld, too."""
    listing = Listing("episodes", (str(theatre_id),))
    page = await evidence.read_episodes(
        transaction,
        str(theatre_id),
        asked.numbered(listing),
        reader=_id_of(reader),
        resources=get_service(request).resources,
    )
    return EpisodePage(
        episodes=[*page.rows], **asked.shown(listing, page, lambda last: (last.seq,))
    )


@router.get("/theatres/{theatre_id}/episodes/{episode_id:name}")
@disclosed(Scope.READ, "not-found")
async def get_episode(
    request: Request,
    reader: Reader,
    theatre_id: UUID,
    episode_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    transaction: Transaction,
) -> EpisodeRecord:
    """Return everything that is recorded of an episode, its calls included."""
    return await evidence.read_episode(
        transaction,
        str(theatre_id),
        episode_id,
        reader=_id_of(reader),
        resources=get_service(request).resources,
    )


@router.get(
    "/theatres/{theatre_id}/evidence-bundle",
    response_class=Response,
    **describe_download("application/gzip", description="The sealed bundle"),
)
@disclosed(Scope.READ, "not-found", "range-not-satisfiable")
async def get_evidence_bundle(
    request: Request, reader: Reader, theatre_id: UUID, _turn: Admission, transaction: Transaction
) -> Response:
    """Download the sealed bundle with its proofs (tar.gz), or ranges of it, for `echelon check`."""
    found = await evidence.bundle_archive(
        transaction,
        str(theatre_id),
        reader=_id_of(reader),
        resources=get_service(request).resources,
    )
    return _send_file(request, theatre_id, found)


@router.get(
    "/theatres/{theatre_id}/evidence-bundle/{path:path}",
    response_class=Response,
    **describe_download(*_KINDS.values(), "text/plain", description="The file"),
)
@disclosed(Scope.READ, "not-found", "range-not-satisfiable")
async def get_evidence_file(
    request: Request,
    reader: Reader,
    theatre_id: UUID,
    path: str,
    _turn: Admission,
    transaction: Transaction,
) -> Response:
    """Download one file of the sealed bundle by its name in the manifest, or one of `proofs/`."""
    found = await evidence.bundle_file(
        transaction,
        str(theatre_id),
        path,
        reader=_id_of(reader),
        resources=get_service(request).resources,
    )
    return _send_file(request, theatre_id, found)


@router.get(
    "/theatres/{theatre_id}/replay",
    response_class=Response,
    **describe_download("application/x-ndjson", description="Training records, one a line"),
)
@public("not-found", "range-not-satisfiable")
async def get_replay(
    request: Request, theatre_id: UUID, _turn: Admission, transaction: Transaction
) -> Response:
    """Download the training records of an archived theatre, one a line."""
    found = await evidence.training_export(
        transaction, str(theatre_id), get_service(request).resources
    )
    return _send_file(request, theatre_id, found)


def _send_file(request: Request, theatre_id: UUID, found: evidence.EvidenceFile) -> Response:
    etag = f'"{found.sha256}"'
    headers = {
        "Cache-Control": (
            "private, no-store" if not found.is_public else IMMUTABLE if found.is_final else FRESH
        ),
        **describedby_header(f"/theatres/{theatre_id}/certificate"),
    }
    not_modified = answer_not_modified(request, etag, **headers)
    if not_modified is not None:
        return not_modified
    status = found.path.stat()
    normalise_range(request, size=status.st_size, etag=etag)
    return FileResponse(
        found.path,
        media_type=_KINDS.get(PurePath(found.name).suffix, "text/plain"),
        filename=found.name,
        headers={"ETag": etag, "Repr-Digest": repr_digest(found.sha256), **headers},
        stat_result=status,
    )


def _id_of(reader: Principal | None) -> str | None:
    return None if reader is None else reader.user_id
