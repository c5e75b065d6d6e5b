"""Pages: how many, from where, and a cursor to go on from.

A cursor says after which row the next page begins, and for which list with which filters. On
another list it would skip rows in silence, so it is refused there.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Depends, Query
from pydantic import AfterValidator
from starlette.responses import Response

from backend.errors import RequestInvalidError, RequestViolation
from backend.repositories.pages import NumberedWindow, Page, Place, Window
from theatre.engine.canonical_json import canonical_bytes, parse_object

MAX_OFFSET = 10_000
NO_NUL = r"^[^\x00]*$"
"""What PostgreSQL can compare: its texts have no U+0000."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HIGHEST = 2**31 - 1

Row = TypeVar("Row")
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


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a list a request asks for."""

    limit: int
    offset: int
    cursor: str | None

    def window(self, listing: Listing) -> Window:
        """Return which rows it asks for; RequestInvalidError for a cursor of another list."""
        place = _decode(self.cursor, listing, partial(_place, listing.keys))
        return Window(self.limit, self.offset, place)

    def numbered(self, listing: Listing) -> NumberedWindow:
        """Return which numbered rows it asks for; errors as `window`."""
        return NumberedWindow(self.limit, self.offset, _decode(self.cursor, listing, _number))

    def shown(
        self, listing: Listing, page: Page[Row], where_of: Callable[[Row], tuple[object, ...]]
    ) -> dict[str, Any]:
        """Return what a document says of its page; behind `where_of` its last row is the next one.

        That is a Place, or a number alone.
        """
        is_full = len(page.rows) == self.limit
        return {
            "total": page.total,
            "limit": self.limit,
            "offset": self.offset,
            "next_cursor": _encode(listing, where_of(page.rows[-1])) if is_full else None,
        }


# Not the class itself: FastAPI would make each in a thread.
async def _asked(limit: Limit = 20, offset: Offset = 0, cursor: Cursor = None) -> PageRequest:
    return PageRequest(limit, offset, cursor)


async def _asked_of_chain(
    limit: Limit = 100, offset: Offset = 0, cursor: Cursor = None
) -> PageRequest:
    return PageRequest(limit, offset, cursor)


Paging = Annotated[PageRequest, Depends(_asked)]
ChainPaging = Annotated[PageRequest, Depends(_asked_of_chain)]


def chain_page(asked: PageRequest, listing: Listing, page: Page[bytes], *, member: str) -> Response:
    """Answer with the entries of a chain as `member`: the very bytes that were hashed.

    Its lines are canonical, and but for the last are not parsed again: a page may be large, and
    parsing it would block the event loop for all other requests.
    """
    rest = asked.shown(listing, page, lambda line: (parse_object(line)["seq"],))
    entries = b",".join(line.rstrip(b"\n") for line in page.rows)
    behind = canonical_bytes(rest).removeprefix(b"{")
    body = b'{"' + member.encode() + b'":[' + entries + b"]," + behind
    return Response(body, media_type="application/json")


def _encode(listing: Listing, where: tuple[object, ...]) -> str:
    text = json.dumps([listing.fingerprint, *where], default=datetime.isoformat)
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
