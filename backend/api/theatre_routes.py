"""Theatres: create, list, read, commit."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from backend.api.http.access_policy import (
    CurrentUser,
    Reader,
    disclosed,
    for_owner,
    for_users,
    resource_router,
)
from backend.api.http.bodies import (
    JSON,
    Document,
    describe_body,
    json_body,
    require_media_type,
    strict_object,
)
from backend.api.http.conditional import (
    WantedVersions,
    answer_not_modified,
    hashed_response,
    version_etag,
)
from backend.api.http.idempotency import Reading, Transaction
from backend.api.http.openapi import (
    BARE,
    ETAG,
    LOCATION,
    describe_immutable,
    describe_links,
    describe_tagged,
)
from backend.api.http.pages import FilterText, Listing, Paging
from backend.api.http.problems import violations_of
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Scope
from backend.errors import RequestInvalidError
from backend.repositories.pages import Place
from backend.repositories.theatres import TheatreView, find_theatres
from backend.schemas.theatres import (
    Commitment,
    CommitRequest,
    CreatedTheatre,
    DryRun,
    HashedCommitment,
    RunDocument,
    TheatreDocument,
    TheatrePage,
    TheatreRequest,
    WarningDocument,
    WholeTheatre,
)
from backend.services import theatres
from backend.services.theatres import find_endpoints
from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    canonical_bytes,
    parse_object,
    sha256_hex,
)
from theatre.engine.commitment import content_hash
from theatre.engine.state_machine import TheatreState

# Commitment receipts as answers.


Format = Annotated[
    Literal["canonical"] | None,
    Query(alias="format", description="the bytes whose SHA-256 is the commitment hash"),
]


def receipt_answer(request: Request, receipt: bytes, form: str | None) -> Response:
    """Return the receipt, or the canonical bytes that its hash is of."""
    body = receipt if form is None else _hashed_bytes(receipt)
    return hashed_response(request, body, sha256=sha256_hex(body), media_type=JSON)


def _hashed_bytes(receipt: bytes) -> bytes:
    document = parse_object(receipt)
    return canonical_bytes(
        {
            "dataset_hashes": document["dataset_hashes"],
            "template": document["template_snapshot"],
            "version_pins": document["version_pins"],
        }
    )


# Bodies of the theatre routes: a template as raw bytes, and bodies that may be left out.


MAX_MEMBERS = 10_000
"""Of a template, in which each is judged by many rules: wrong ones take a second in all."""


async def template_body(request: Request) -> JsonObject:
    """Return the template of a request: bare, or as `template_json`; never parsed twice.

    Raises RequestRefusedError for another media type, ParseError, and RequestInvalidError with
    every violation.
    """
    media_type = require_media_type(request, JSON, BARE)
    body = await request.body()
    if media_type == BARE:
        return strict_object(body, max_depth=MAX_INPUT_DEPTH, max_members=MAX_MEMBERS)
    document = strict_object(body, max_depth=MAX_INPUT_DEPTH + 1, max_members=MAX_MEMBERS)
    try:
        return TheatreRequest.model_validate(document).template_json
    except ValidationError as error:
        raise RequestInvalidError(violations_of(error)) from None


async def addresses_in_template(
    request: Request, document: Annotated[JsonObject, Depends(template_body)]
) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the hosts that a template names.

    A dependency, to be asked for before a transaction: name servers take their time.
    """
    constructs = get_service(request).resources.constructs
    return await constructs.resolve_addresses(find_endpoints(document))


def optional_json_body(model: type[Document]) -> Callable[[Request], Awaitable[Document]]:
    """Return a dependency that reads a JSON object as `model`, or no body as its defaults."""
    read_body = json_body(model)

    async def read(request: Request) -> Document:
        return await read_body(request) if await request.body() else model()

    return read


def describe_template_body() -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads a template."""
    described = describe_body(TheatreRequest)
    bare = {"schema": {"type": "object", "description": "a template, as docs/templates.md has it"}}
    described["requestBody"]["content"][BARE] = bare
    return described


def describe_optional_body(model: type[Document]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body may be left out."""
    described = describe_body(model)
    described["requestBody"]["required"] = False
    return described


# From a theatre's row to what is shown of it.


_NOT_SHOWN = frozenset(
    {"version", "run_status", "refused_count", "pending_step", "started_at", "heartbeat_at"}
)


def theatre_document(view: TheatreView, *, now: datetime) -> TheatreDocument:
    """Return the document of a theatre."""
    shown = {name: value for name, value in view._asdict().items() if name not in _NOT_SHOWN}
    pending = [] if view.pending_step is None else [view.pending_step]
    return TheatreDocument.model_validate(
        {**shown, "run": _run(view, now), "pending_steps": pending}
    )


def _run(view: TheatreView, now: datetime) -> RunDocument | None:
    if view.run_status is None:
        return None
    return RunDocument.model_validate(
        {
            "status": view.run_status,
            "progress": view.progress,
            "total": view.total_episodes,
            "failures": view.failure_count,
            "refused": view.refused_count,
            "started_at": view.started_at,
            "heartbeat_at": view.heartbeat_at,
            "eta_seconds": _eta_seconds(view, now),
        }
    )


def _eta_seconds(view: TheatreView, now: datetime) -> float | None:
    if view.run_status != "running" or view.started_at is None or not view.progress:
        return None
    pace = (now - view.started_at).total_seconds() / view.progress
    return round(max(0.0, pace * (view.total_episodes - view.progress)), 1)


router = resource_router("theatres")


@router.post(
    "/theatres",
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
@for_users(
    Scope.WRITE,
    "template-invalid",
    "construct-unknown",
    "endpoint-not-allowed",
    "isolation-unavailable",
    "address-not-allowed",
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
    location = {"Location": f"/api/v1/theatres/{view.id}", "ETag": version_etag(view.version)}
    return JSONResponse(shown, 201, headers=location)


@router.get("/theatres")
@for_owner(Scope.READ)
async def list_theatres(
    request: Request,
    user: CurrentUser,
    transaction: Transaction,
    asked: Paging,
    *,
    state: TheatreState | None = None,
    construct_id: FilterText = None,
    template_id: FilterText = None,
) -> TheatrePage:
    """List your theatres, the newest first."""
    listing = Listing("theatres", (user.user_id, state, construct_id, template_id))
    page = await find_theatres(
        transaction,
        asked.window(listing),
        user_id=user.user_id,
        state=state,
        construct_id=construct_id,
        template_id=template_id,
    )
    now = get_service(request).clock()
    return TheatrePage(
        theatres=[theatre_document(view, now=now) for view in page.rows],
        **asked.shown(listing, page, lambda last: Place(last.created_at, last.id)),
    )


@router.get("/theatres/{theatre_id}", response_model=WholeTheatre, **describe_tagged())
@for_owner(Scope.READ, "not-found")
async def get_theatre(
    request: Request, user: CurrentUser, theatre_id: UUID, reading: Reading
) -> Response:
    """Return a theatre of yours: its template, how far it is, and why it has no certificate."""
    view = await theatres.read_theatre(reading, str(theatre_id), user_id=user.user_id)
    etag = version_etag(view.version)
    same = answer_not_modified(request, etag)
    if same is not None:
        return same
    made = theatre_document(view, now=get_service(request).clock()).model_dump()
    made |= {
        "parameters": await theatres.read_template(reading, view),
        "ending": await theatres.read_ending(reading, view),
        "usage": await theatres.read_usage(reading, view),
    }
    shown = WholeTheatre.model_validate(made)
    return JSONResponse(shown.model_dump(mode="json"), headers={"ETag": etag})


@router.post(
    "/theatres/{theatre_id}/commit",
    responses={200: {"links": describe_links("get_commitment", "run_theatre")}},
    openapi_extra=describe_optional_body(CommitRequest),
)
@for_owner(
    Scope.WRITE,
    "not-found",
    "state-conflict",
    "precondition-failed",
    "invalid-transition",
    "template-invalid",
    "dataset-unavailable",
    "dataset-mismatch",
    "commitment-refused",
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
    response_class=Response,
    **describe_immutable(Commitment | HashedCommitment, "The receipt, or the hashed bytes"),
)
@disclosed(Scope.READ, "not-found")
async def get_commitment(
    request: Request,
    reader: Reader,
    theatre_id: UUID,
    transaction: Transaction,
    form: Format = None,
) -> Response:
    """Return a commitment receipt; `format=canonical`: the very bytes that were hashed.

    With `disclosure: hashes` its owner alone gets the template, and the bytes that were hashed.
    """
    user_id = None if reader is None else reader.user_id
    receipt = await theatres.read_receipt(
        transaction, str(theatre_id), reader=user_id, is_hashed=form is not None
    )
    answer = receipt_answer(request, receipt, form)
    if reader is not None:
        answer.headers["Cache-Control"] = "private, no-store"
    return answer


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
