"""Pages: how many, from where, and a cursor to go on from."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query

from backend.errors import RequestInvalidError, RequestViolation
from backend.repositories.theatre_views import Place

MAX_OFFSET = 10_000
NO_NUL = r"^[^\x00]*$"
"""What PostgreSQL can compare: its texts have no U+0000."""

Limit = Annotated[int, Query(ge=1, le=100, description="how many on a page")]
Offset = Annotated[
    int, Query(ge=0, le=MAX_OFFSET, description="how many to leave out; further on, use cursor")
]
FilterText = Annotated[str | None, Query(max_length=255, pattern=NO_NUL)]
Cursor = Annotated[
    str | None, Query(max_length=200, description="`next_cursor` of the page before")
]


def cursor_of(place: Place) -> str:
    """Return the cursor of the page behind `place`."""
    text = json.dumps([place.created_at.isoformat(), place.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> Place | None:
    """Return where a cursor goes on from; RequestInvalidError for one that is none of ours."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        created_at, own_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        place = Place(datetime.fromisoformat(created_at), str(UUID(own_id)))
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        place = None
    if place is None or place.created_at.tzinfo is None:
        raise RequestInvalidError(
            [RequestViolation("query:cursor", "cursor", "expected `next_cursor` of a page")]
        )
    return place
