"""Conditional requests: entity tags, immutable bytes, and changes of a version that was read.

Entity tags and preconditions: RFC 9110 §13. Digests: RFC 9530.
"""

import base64
import hashlib
import re
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

IMMUTABLE = "public, max-age=31536000, immutable"
OPEN_TO_PAGES = {"Access-Control-Allow-Origin": "*"}
"""Any page in a browser may read the answer; never one to a request with credentials."""
FRESH = "public, max-age=30"
"""For what changes with time alone, or seldom."""
_VERSION = re.compile(r'"v([0-9]{1,18})"', re.ASCII)


def answer_not_modified(request: Request, etag: str, **headers: str) -> Response | None:
    """Return a 304 response where the client has `etag` already, else None."""
    given = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    if etag.removeprefix("W/") in tags or "*" in tags:
        return Response(status_code=304, headers={"ETag": etag, **headers})
    return None


def version_etag(version: int) -> str:
    """Return the entity tag of a row by its version: every change of it is another one."""
    return f'"v{version}"'


def describedby_header(path: str) -> dict[str, str]:
    """Return the header that links immutable bytes to their current status."""
    return {"Link": f'</api/v1{path}>; rel="describedby"'}


def hashed_response(
    request: Request,
    body: bytes,
    *,
    sha256: str,
    media_type: str,
    caching: str = IMMUTABLE,
    digest: str | None = None,
    view: str | None = None,
) -> Response:
    """Return bytes by their hash `sha256`; under this address they never change by default.

    `digest` is the SHA-256 of the very bytes, where those are more than what the hash is over;
    `view` is the path of what says more of them, and may change.
    """
    etag, kept = f'"{sha256}"', {"Cache-Control": caching}
    if view is not None:
        kept |= describedby_header(view)
    return answer_not_modified(request, etag, **kept) or Response(
        body,
        media_type=media_type,
        headers={"ETag": etag, "Repr-Digest": repr_digest(digest or sha256), **kept},
    )


def tagged_json(request: Request, shown: object, *, caching: str) -> Response:
    """Return a JSON response whose entity tag is the hash of its bytes."""
    whole = JSONResponse(shown, headers={"Cache-Control": caching})
    etag = f'"{hashlib.sha256(whole.body).hexdigest()}"'
    whole.headers["ETag"] = etag
    return answer_not_modified(request, etag, **{"Cache-Control": caching}) or whole


def repr_digest(sha256: str) -> str:
    """Return the `Repr-Digest` of a representation with this SHA-256 (hex)."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


async def _parse_if_match(
    if_match: Annotated[
        str | None,
        Header(description="entity tags of the theatre as it was read; 412 if it has changed"),
    ] = None,
) -> frozenset[int] | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = (_VERSION.fullmatch(tag.strip()) for tag in if_match.split(","))
    return frozenset(int(tag[1]) for tag in found if tag is not None)


WantedVersions = Annotated[frozenset[int] | None, Depends(_parse_if_match)]
"""The versions of a theatre that a change may be made to; None for any."""


# Range requests (RFC 9110 §14): one range of bytes; any other request gets the whole file.


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
