"""Theatres: create, list, read, commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from backend.api.conditional import WantedVersions, answer_not_modified
from backend.api.declared_routes import CurrentUser, for_owner, for_users, public, resource_router
from backend.api.described_answers import (
    ETAG,
    IF_NONE_MATCH,
    LOCATION,
    describe_headers,
    describe_immutable,
    describe_links,
    describe_tagged,
)
from backend.api.pages import (
    Cursor,
    FilterText,
    Limit,
    Listing,
    Offset,
    cursor_of,
    parse_place,
)
from backend.api.receipts import Format, receipt_answer
from backend.api.service import get_service
from backend.api.theatre_bodies import (
    addresses_in_template,
    describe_optional_body,
    describe_template_body,
    optional_json_body,
    template_body,
)
from backend.api.theatre_documents import etag_of, theatre_document
from backend.api.transactions import Reading, Transaction
from backend.api.turns import Admission
from backend.auth.principals import Scope
from backend.repositories.commitments import find_receipt
from backend.repositories.theatre_views import Place, TheatreFilter
from backend.schemas.theatres import (
    Commitment,
    CommitRequest,
    CreatedTheatre,
    DryRun,
    HashedCommitment,
    TheatreDocument,
    TheatrePage,
    WarningDocument,
    WholeTheatre,
)
from backend.services import theatres
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import content_hash
from theatre.engine.state_machine import TheatreState

DECLARED = {
    "create_theatre": for_users(
        Scope.WRITE,
        "template-invalid",
        "construct-unknown",
        "endpoint-not-allowed",
        "isolation-unavailable",
        "address-not-allowed",
    ),
    "list_theatres": for_owner(Scope.READ),
    "get_theatre": for_owner(Scope.READ, "not-found"),
    "commit_theatre": for_owner(
        Scope.WRITE,
        "not-found",
        "state-conflict",
        "precondition-failed",
        "invalid-transition",
        "template-invalid",
        "dataset-unavailable",
        "dataset-mismatch",
        "commitment-refused",
    ),
    "get_commitment": public("not-found"),
}
router = resource_router("theatres", DECLARED)


@router.post(
    "/theatres",
    operation_id="create_theatre",
    status_code=201,
    response_model=CreatedTheatre,
    responses={
        200: {"model": DryRun, "description": "Valid; nothing was stored"},
        201: {
            "headers": {**LOCATION, **ETAG},
            "links": describe_links("get_theatre", "commit_theatre"),
        },
    },
    openapi_extra=describe_template_body(),
)
async def create_theatre(
    request: Request,
    user: CurrentUser,
    document: Annotated[JsonObject, Depends(template_body)],
    found: Annotated[Mapping[str, Sequence[str]], Depends(addresses_in_template)],
    transaction: Transaction,
    *,
    dry_run: bool = False,
) -> Response:
    """Make a DRAFT of a template; with `dry_run=true` only validate it."""
    service = get_service(request)
    template = await theatres.validate_template(document, found, service.resources)
    if dry_run:
        return JSONResponse(_dry_run(template).model_dump(mode="json"))
    view = await theatres.create_theatre(
        transaction, service.engine, template, user_id=user.user_id, resources=service.resources
    )
    made = theatre_document(view, now=service.clock()).model_dump()
    shown = CreatedTheatre(**made, warnings=_warnings(template)).model_dump(mode="json")
    location = {"Location": f"/api/v1/theatres/{view.id}", "ETag": etag_of(view)}
    return JSONResponse(shown, 201, headers=location)


@router.get("/theatres", operation_id="list_theatres")
async def list_theatres(
    request: Request,
    user: CurrentUser,
    transaction: Transaction,
    *,
    state: TheatreState | None = None,
    construct_id: FilterText = None,
    template_id: FilterText = None,
    limit: Limit = 20,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> TheatrePage:
    """List your theatres, the newest first."""
    wanted = TheatreFilter(state=state, construct_id=construct_id, template_id=template_id)
    listing = Listing("theatres", (user.user_id, state, construct_id, template_id))
    page = await theatres.list_theatres(
        transaction,
        user_id=user.user_id,
        wanted=wanted,
        limit=limit,
        offset=offset,
        after=parse_place(cursor, listing),
    )
    now = get_service(request).clock()
    return TheatrePage(
        theatres=[theatre_document(view, now=now) for view in page.views],
        total=page.total,
        limit=limit,
        offset=offset,
        next_cursor=_next_cursor(listing, page, limit),
    )


@router.get(
    "/theatres/{theatre_id}",
    operation_id="get_theatre",
    response_model=WholeTheatre,
    responses=describe_tagged(),
    openapi_extra=describe_headers(IF_NONE_MATCH),
)
async def get_theatre(
    request: Request, user: CurrentUser, theatre_id: UUID, reading: Reading
) -> Response:
    """Return a theatre of yours: its template, how far it is, and why it has no certificate."""
    view = await theatres.read_theatre(reading, str(theatre_id), user_id=user.user_id)
    etag = etag_of(view)
    same = answer_not_modified(request, etag)
    if same is not None:
        return same
    made = theatre_document(view, now=get_service(request).clock()).model_dump()
    parameters = await theatres.read_template(reading, view)
    ending = await theatres.read_ending(reading, view)
    shown = WholeTheatre.model_validate({**made, "parameters": parameters, "ending": ending})
    return JSONResponse(shown.model_dump(mode="json"), headers={"ETag": etag})


@router.post(
    "/theatres/{theatre_id}/commit",
    operation_id="commit_theatre",
    responses={200: {"links": describe_links("get_commitment", "run_theatre")}},
    openapi_extra=describe_optional_body(CommitRequest),
)
async def commit_theatre(
    request: Request,
    user: CurrentUser,
    theatre_id: UUID,
    body: Annotated[CommitRequest, Depends(optional_json_body(CommitRequest))],
    versions: WantedVersions,
    _turn: Admission,
    transaction: Transaction,
) -> TheatreDocument:
    """Freeze template, pins and ground truth of a DRAFT under one hash."""
    service = get_service(request)
    view = await theatres.commit_theatre(
        transaction,
        service.engine,
        str(theatre_id),
        user_id=user.user_id,
        versions=versions,
        expected_hash=body.expected_commitment_hash,
        resources=service.resources,
    )
    return theatre_document(view, now=service.clock())


@router.get(
    "/theatres/{theatre_id}/commitment",
    operation_id="get_commitment",
    response_class=Response,
    responses=describe_immutable(Commitment | HashedCommitment, "The receipt, or the hashed bytes"),
    openapi_extra=describe_headers(IF_NONE_MATCH),
)
async def get_commitment(
    request: Request, theatre_id: UUID, transaction: Transaction, form: Format = None
) -> Response:
    """Return a commitment receipt; `format=canonical`: the very bytes that were hashed."""
    return receipt_answer(request, await find_receipt(transaction, str(theatre_id)), form)


def _dry_run(template: theatres.ValidTemplate) -> DryRun:
    return DryRun(
        template_id=str(template.document["theatre_id"]),
        commitment_hash=template.commitment_hash,
        content_hash=content_hash(template.document),
        warnings=_warnings(template),
    )


def _warnings(template: theatres.ValidTemplate) -> list[WarningDocument]:
    return [
        WarningDocument(pointer=one.pointer, rule=one.rule, detail=one.detail)
        for one in template.report.warnings
    ]


def _next_cursor(listing: Listing, page: theatres.TheatrePages, limit: int) -> str | None:
    if len(page.views) < limit:
        return None
    return cursor_of(listing, Place(page.views[-1].created_at, page.views[-1].id))
