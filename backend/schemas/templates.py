"""Templates that were committed, that ship, and that the operator accepts."""

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
    content_hash: str = Field(description="of all of it but version pins and data hashes")


class ListedTemplate(TemplateDocument):
    """A committed template, and whether it is accepted now."""

    accepted: bool = Field(description="by the operator: runs on it count")


class WholeTemplateDocument(TemplateDocument):
    """A template with its body and the schema that it keeps to."""

    template_json: dict[str, Any]
    json_schema: dict[str, Any] = Field(description="the frozen schema of its `schema_version`")


class AvailableTemplateDocument(ResponseDocument):
    """A template that ships with this release, or that the operator accepts."""

    name: str
    content_hash: str = Field(description="of all of it but version pins and data hashes")
    sha256: str | None = Field(description="of the canonical template, where it ships")
    template_family: str | None
    display_name: str | None
    ships: bool
    accepted: bool


class TemplatePage(ResponseDocument):
    """Some committed templates, the newest first, and all that ship or are accepted."""

    available: list[AvailableTemplateDocument]

    templates: list[ListedTemplate]
    total: int
    limit: int
    offset: int
    next_cursor: str | None
