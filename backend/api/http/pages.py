"""Pages: how many, from where, and a cursor to go on from.

A cursor says after which row the next page begins, and for which list with which filters. On
another list it would skip rows in silence, so it is refused there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from fastapi import Query
from pydantic import AfterValidator
from starlette.responses import Response

from backend.errors import RequestInvalidError, RequestViolation
from backend.repositories.theatres import Place
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object

MAX_OFFSET = 10_000
NO_NUL = r"^[^\x00]*$"
"""What PostgreSQL can compare: its texts have no U+0000."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HIGHEST = 2**31 - 1

Where = TypeVar("Where")


class Listing(NamedTuple):
    """One list as it is filtered: what a cursor belongs to."""

    name: str
    filters: tuple[str | None, ...] = ()
    keys: re.Pattern[str] = _UUID
    """What its rows are named by; PostgreSQL would fail on a name of another kind."""

    @property
    def fingerprint(self) -> str:
        """Return a short name of list and filters."""
        return hashlib.sha256(json.dumps([self.name, self.filters]).encode()).hexdigest()[:16]


def _check_offset(offset: int) -> int:
    if offset > MAX_OFFSET:
        raise ValueError(
            f"expected at most {MAX_OFFSET}; further on, send `next_cursor` of a page as `cursor`"
        )
    return offset


Limit = Annotated[int, Query(ge=1, le=100, description="how many on a page")]
Offset = Annotated[
    int,
    Query(
        ge=0,
        description="how many to leave out; further on, use cursor",
        json_schema_extra={"maximum": MAX_OFFSET},
    ),
    AfterValidator(_check_offset),
]
FilterText = Annotated[str | None, Query(max_length=255, pattern=NO_NUL)]
Cursor = Annotated[
    str | None, Query(max_length=200, description="`next_cursor` of the page before")
]


def cursor_of(listing: Listing, place: Place) -> str:
    """Return the cursor of the page behind `place`."""
    return _encode(listing, place.created_at.isoformat(), place.id)


def sequence_cursor_of(listing: Listing, last: int | None) -> str | None:
    """Return the cursor of the page behind the row numbered `last`; None where nothing is."""
    return None if last is None else _encode(listing, last)


def chain_page(
    lines: Sequence[bytes],
    *,
    member: str,
    listing: Listing,
    total: int,
    limit: int,
    offset: int,
) -> Response:
    """Answer with the entries of a chain as `member`: the very bytes that were hashed.

    `lines` are canonical, and are not parsed again: a page may be large, and parsing it would block
    the event loop for all other requests.
    """
    last = cast("int", parse_object(lines[-1])["seq"]) if len(lines) == limit else None
    rest: JsonObject = {
        "total": total,
        "limit": limit,
        "offset": offset,
        "next_cursor": sequence_cursor_of(listing, last),
    }
    entries = b",".join(line.rstrip(b"\n") for line in lines)
    behind = canonical_bytes(rest).removeprefix(b"{")
    body = b'{"' + member.encode() + b'":[' + entries + b"]," + behind
    return Response(body, media_type="application/json")


def parse_place(cursor: str | None, listing: Listing) -> Place | None:
    """Return where a cursor goes on; RequestInvalidError for one that is not of this list."""
    return _decode(cursor, listing, partial(_place, listing.keys))


def parse_sequence(cursor: str | None, listing: Listing) -> int | None:
    """Return the number that a cursor goes on behind; errors as `parse_place`."""
    return _decode(cursor, listing, _number)


def _encode(listing: Listing, *where: str | int) -> str:
    text = json.dumps([listing.fingerprint, *where])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(
    cursor: str | None, listing: Listing, place: Callable[[list[Any]], Where]
) -> Where | None:
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        fingerprint, *where = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if fingerprint == listing.fingerprint:
            return place(where)
    except (binascii.Error, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        pass  # Any damage means that this service did not issue it.
    raise RequestInvalidError(
        [
            RequestViolation(
                "query:cursor",
                "cursor",
                "expected `next_cursor` of a page of this list with the same filters, got another",
            )
        ]
    )


def _place(keys: re.Pattern[str], where: list[Any]) -> Place:
    created_at, key = where
    moment = datetime.fromisoformat(created_at)
    if moment.tzinfo is None or not keys.fullmatch(key):
        raise ValueError("expected a time with its offset and the name of a row")
    return Place(moment.astimezone(UTC), key)


def _number(where: list[Any]) -> int:
    (number,) = where
    if not isinstance(number, int) or not 0 <= number <= _HIGHEST:
        raise ValueError("expected the number of a row")
    return number
