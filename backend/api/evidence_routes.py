"""Evidence: for the owner, and for anybody once the theatre is resolved, as it discloses."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request
from starlette.responses import FileResponse, Response

from backend.api.conditional import IMMUTABLE, unchanged
from backend.api.declared_routes import Reader, disclosed, public, resource_router
from backend.api.pages import NO_NUL, Limit, Offset
from backend.api.service import service_of
from backend.api.transactions import Transaction
from backend.auth.principals import Principal, Scope
from backend.schemas.evidence import AuditPage, EpisodeDocument, EpisodePage, EpisodeRecord
from backend.services import evidence

DECLARED = {
    "list_audit_events": disclosed(Scope.READ),
    "list_episodes": disclosed(Scope.READ),
    "get_episode": disclosed(Scope.READ),
    "get_evidence_bundle": disclosed(Scope.READ),
    "get_evidence_file": disclosed(Scope.READ),
    "get_replay": public(),
}
router = resource_router("evidence", DECLARED)
SequenceCursor = Annotated[
    str | None,
    Query(alias="cursor", pattern=r"^[0-9]{1,9}$", description="`next_cursor` of the page before"),
]
_KINDS = {".json": "application/json", ".jsonl": "application/x-ndjson", ".gz": "application/gzip"}


@router.get("/theatres/{theatre_id}/audit-events", operation_id="list_audit_events")
async def list_audit_events(
    reader: Reader,
    theatre_id: UUID,
    transaction: Transaction,
    *,
    limit: Limit = 100,
    offset: Offset = 0,
    after: SequenceCursor = None,
) -> AuditPage:
    """List the entries of the audit chain, as they were hashed."""
    page = await evidence.read_audit(
        transaction,
        str(theatre_id),
        reader=_id_of(reader),
        limit=limit,
        offset=offset,
        after=_number(after),
    )
    return AuditPage(
        audit_events=list(page.items),
        total=page.total,
        limit=limit,
        offset=offset,
        next_cursor=_text(page.last),
    )


@router.get("/theatres/{theatre_id}/episodes", operation_id="list_episodes")
async def list_episodes(
    reader: Reader,
    theatre_id: UUID,
    transaction: Transaction,
    *,
    limit: Limit = 100,
    offset: Offset = 0,
    after: SequenceCursor = None,
) -> EpisodePage:
    """List what became of each recorded episode."""
    page = await evidence.read_episodes(
        transaction,
        str(theatre_id),
        reader=_id_of(reader),
        limit=limit,
        offset=offset,
        after=_number(after),
    )
    return EpisodePage(
        episodes=[EpisodeDocument.model_validate(one) for one in page.items],
        total=page.total,
        limit=limit,
        offset=offset,
        next_cursor=_text(page.last),
    )


@router.get("/theatres/{theatre_id}/episodes/{episode_id}", operation_id="get_episode")
async def get_episode(
    reader: Reader,
    theatre_id: UUID,
    episode_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    transaction: Transaction,
) -> EpisodeRecord:
    """Return everything that is recorded of an episode, its calls included."""
    view, record = await evidence.read_episode(
        transaction, str(theatre_id), episode_id, reader=_id_of(reader)
    )
    return EpisodeRecord.model_validate({**view._asdict(), "record": record})


@router.get(
    "/theatres/{theatre_id}/evidence-bundle",
    operation_id="get_evidence_bundle",
    response_class=Response,
)
async def get_evidence_bundle(
    request: Request, reader: Reader, theatre_id: UUID, transaction: Transaction
) -> Response:
    """Download the sealed bundle (tar.gz), whole or in ranges, for `echelon check`."""
    found = await evidence.bundle_archive(
        transaction,
        str(theatre_id),
        reader=_id_of(reader),
        resources=service_of(request).resources,
    )
    return _sent(request, found)


@router.get(
    "/theatres/{theatre_id}/evidence-bundle/{path:path}",
    operation_id="get_evidence_file",
    response_class=Response,
)
async def get_evidence_file(
    request: Request, reader: Reader, theatre_id: UUID, path: str, transaction: Transaction
) -> Response:
    """Download one file of the sealed bundle by its name in the manifest."""
    found = await evidence.bundle_file(
        transaction,
        str(theatre_id),
        path,
        reader=_id_of(reader),
        resources=service_of(request).resources,
    )
    return _sent(request, found)


@router.get("/theatres/{theatre_id}/replay", operation_id="get_replay", response_class=Response)
async def get_replay(request: Request, theatre_id: UUID, transaction: Transaction) -> Response:
    """Download the training records of an archived theatre, one a line."""
    found = await evidence.training_export(
        transaction, str(theatre_id), service_of(request).resources
    )
    return _sent(request, found)


def _sent(request: Request, found: evidence.EvidenceFile) -> Response:
    etag = f'"{found.tag}"'
    headers = {"Cache-Control": IMMUTABLE if found.is_public else "private, max-age=31536000"}
    return unchanged(request, etag, **headers) or FileResponse(
        found.path,
        media_type=_KINDS.get(found.path.suffix, "text/plain"),
        filename=found.name,
        headers={"ETag": etag, **headers},
    )


def _id_of(reader: Principal | None) -> str | None:
    return None if reader is None else reader.user_id


def _number(cursor: str | None) -> int | None:
    return None if cursor is None else int(cursor)


def _text(last: int | None) -> str | None:
    return None if last is None else str(last)
