"""Uploaded ground truth."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from backend.schemas.base import ResponseDocument


class DatasetDocument(ResponseDocument):
    """An upload of a user."""

    sha256: str
    name: str = Field(description="what a template writes for its path")
    size_bytes: int
    lines_total: int
    created_at: datetime
