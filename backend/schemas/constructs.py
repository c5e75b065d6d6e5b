"""Construct ids that belong to users."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from backend.schemas.base import RequestDocument, ResponseDocument


class ConstructRequest(RequestDocument):
    """A construct id that is claimed."""

    construct_id: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
    author: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")] | None
    ) = None


class ConstructDocument(ResponseDocument):
    """A construct id that a user claims; runs count from when it is confirmed."""

    construct_id: str
    author: str | None
    created_at: datetime
    confirmed_at: datetime | None
    lapses_at: datetime | None = Field(
        description="when any user may claim it; null once it is confirmed"
    )


class ConstructPage(ResponseDocument):
    """Some construct ids that a user claims, the newest first."""

    constructs: list[ConstructDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None
