"""Templates: committed ones, those that ship or are accepted; and data for them, uploaded."""

import asyncio
from functools import cache
from typing import Annotated

from fastapi import Path, Query, Request
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import Response

from backend.api.http.access_policy import (
    CurrentUser,
    for_owner,
    for_users,
    public,
    resource_router,
)
from backend.api.http.bodies import require_media_type
from backend.api.http.conditional import FRESH, IMMUTABLE, tagged_json
from backend.api.http.idempotency import Transaction
from backend.api.http.openapi import describe_tagged
from backend.api.http.pages import NO_NUL, SHA256, Listing, Paging
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.repositories.pages import Place
from backend.repositories.template_views import find_templates, template_of
from backend.repositories.theatres import StoredDataset
from backend.schemas.theatres import (
    DatasetDocument,
    ListedTemplate,
    TemplatePage,
    WholeTemplateDocument,
)
from backend.services.datasets import read_upload, take_upload
from backend.services.ground_truth import UPLOADED
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import resource_root
from theatre.engine.template_validator.validator import TEMPLATE_SCHEMAS

router = resource_router("templates")
datasets = resource_router("datasets")
_LISTING = Listing("templates", keys=SHA256)


@router.get("/templates")
@public()
async def list_templates(
    request: Request, response: Response, transaction: Transaction, asked: Paging
) -> TemplatePage:
    """List the templates that were committed, the newest first, and what ships or is accepted."""
    accepted_templates = get_service(request).resources.accepted_templates
    available = await asyncio.to_thread(accepted_templates.available)
    page = await find_templates(transaction, asked.window(_LISTING))
    response.headers["Cache-Control"] = FRESH
    accepted = accepted_templates.content_hashes
    return TemplatePage(
        available=available,
        templates=[
            ListedTemplate(**view._asdict(), accepted=view.content_hash in accepted)
            for view in page.rows
        ],
        **asked.shown(_LISTING, page, lambda last: Place(last.created_at, last.sha256)),
    )


@router.get("/templates/{template_id}", response_model=WholeTemplateDocument, **describe_tagged())
@public("not-found")
async def get_template(
    request: Request,
    template_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    transaction: Transaction,
    *,
    sha256: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")] = None,
) -> Response:
    """Return a committed template of an id, or the one with these bytes.

    Of an id it is the newest that the operator accepts, else the newest by any user.
    """
    document = await template_document(request, transaction, template_id, sha256)
    shown = document.model_dump(mode="json")
    # What has these bytes is always the same; an id may stand for a newer template tomorrow.
    return tagged_json(request, shown, caching=FRESH if sha256 is None else IMMUTABLE)


async def template_document(
    request: Request, connection: AsyncConnection, template_id: str, sha256: str | None
) -> WholeTemplateDocument:
    """Return a committed template; NotFoundError where there is none that is open."""
    accepted = get_service(request).resources.accepted_templates.content_hashes
    found = await template_of(connection, template_id, sha256=sha256, accepted=accepted)
    if found is None:
        raise NotFoundError("expected a committed template, got none")
    schema = _schema(TEMPLATE_SCHEMAS[found.view.schema_version])
    body = parse_object(found.document)
    return WholeTemplateDocument(**found.view._asdict(), template_json=body, json_schema=schema)


@cache
def _schema(name: str) -> JsonObject:
    return parse_object((resource_root() / "docs" / "schemas" / name).read_bytes())


# Ground truth, uploaded by users who are not on the server.


LINES = "application/x-ndjson"
_BODY = {"content": {LINES: {"schema": {"type": "string", "minLength": 1}}}, "required": True}


@datasets.post("/datasets", status_code=201, openapi_extra={"requestBody": _BODY})
# The same bytes again are the same dataset: a key would only make the body be read twice.
@for_users(Scope.WRITE, "dataset-unavailable", idempotent=False)
async def upload_dataset(request: Request, user: CurrentUser) -> DatasetDocument:
    """Upload ground truth, JSON lines of at most 64 MiB; it is named by its hash."""
    require_media_type(request, LINES, "application/jsonl")
    service = get_service(request)
    return _shown(
        await take_upload(
            service.engine, request.stream(), user_id=user.user_id, resources=service.resources
        )
    )


@datasets.get("/datasets/{sha256}")
@for_owner(Scope.READ, "not-found")
async def get_dataset(
    user: CurrentUser,
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    transaction: Transaction,
) -> DatasetDocument:
    """Return what is known of an upload of yours."""
    return _shown(await read_upload(transaction, sha256, user_id=user.user_id))


def _shown(dataset: StoredDataset) -> DatasetDocument:
    return DatasetDocument(name=f"{UPLOADED}{dataset.sha256}", **dataset._asdict())
