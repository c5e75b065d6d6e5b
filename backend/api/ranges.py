"""Range requests (RFC 9110 §14): one range of bytes; any other request gets the whole file."""

from __future__ import annotations

import re

from fastapi import Request
from starlette.exceptions import HTTPException

_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))", re.ASCII | re.IGNORECASE)
_UNSATISFIABLE = 416


def normalise_range(request: Request, *, size: int, etag: str) -> None:
    """Remove `Range` from the request unless it is one range of the version that the client has.

    Raises HTTPException (416) for one behind the end. RFC 9110 lets a server ignore every other
    request for parts, and wants it for malformed ones.
    """
    given = request.headers.get("range")
    if given is None:
        return
    found = _RANGE.fullmatch(given.strip())
    # If-Range: a part of another version must not be joined to what the client has.
    if found is None or request.headers.get("if-range", etag) != etag or _is_backwards(found):
        headers = request.scope["headers"]
        request.scope["headers"] = [one for one in headers if one[0] != b"range"]
        return
    first, _, suffix = found.groups()
    if int(first or 0) >= size or (suffix is not None and not int(suffix)):
        raise HTTPException(_UNSATISFIABLE, headers={"Content-Range": f"bytes */{size}"})


def _is_backwards(found: re.Match[str]) -> bool:
    first, last, _ = found.groups()
    return bool(first and last) and int(last) < int(first)
