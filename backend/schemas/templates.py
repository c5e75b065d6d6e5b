"""Templates that were committed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from backend.schemas.base import ResponseDocument


class TemplateDocument(ResponseDocument):
    """A template in a list. One id may stand for several; `sha256` for exactly one."""

    id: str
    sha256: str
    template_family: str
    execution_path: str | None
    display_name: str
    description: str | None
    schema_version: str
    created_at: datetime


class WholeTemplateDocument(TemplateDocument):
    """A template with its body and the schema that it keeps to."""

    template_json: dict[str, Any]
    json_schema: dict[str, Any] = Field(description="the frozen schema of its `schema_version`")


class TemplatePage(ResponseDocument):
    """Some committed templates, the newest first."""

    templates: list[TemplateDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None
