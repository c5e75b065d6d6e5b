"""Templates that somebody committed."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from fastapi import Path, Query

from backend.api.declared_routes import public, resource_router
from backend.api.pages import NO_NUL, Limit, Offset
from backend.api.transactions import Transaction
from backend.repositories.template_views import template_of, templates_page
from backend.schemas.templates import TemplateDocument, TemplatePage, WholeTemplateDocument
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import resource_root
from theatre.engine.template_validator.validator import TEMPLATE_SCHEMAS

DECLARED = {"list_templates": public(), "get_template": public()}
router = resource_router("templates", DECLARED)


@router.get("/templates", operation_id="list_templates")
async def list_templates(
    transaction: Transaction, *, limit: Limit = 20, offset: Offset = 0
) -> TemplatePage:
    """List the templates that were committed, the newest first."""
    views, total = await templates_page(transaction, limit=limit, offset=offset)
    shown = [TemplateDocument.model_validate(view) for view in views]
    return TemplatePage(templates=shown, total=total, limit=limit, offset=offset)


@router.get("/templates/{template_id}", operation_id="get_template")
async def get_template(
    template_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    transaction: Transaction,
    *,
    sha256: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")] = None,
) -> WholeTemplateDocument:
    """Return the newest committed template of an id, or the one with these bytes."""
    found = await template_of(transaction, template_id, sha256=sha256)
    if found is None:
        raise NotFoundError("expected a committed template, got none")
    schema = _schema(TEMPLATE_SCHEMAS[found.view.schema_version])
    body = parse_object(found.document)
    return WholeTemplateDocument(**found.view._asdict(), template_json=body, json_schema=schema)


@cache
def _schema(name: str) -> JsonObject:
    return parse_object((resource_root() / "docs" / "schemas" / name).read_bytes())
