"""Answers that a reader may have already: entity tags, and bytes that never change."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

IMMUTABLE = "public, max-age=31536000, immutable"


def unchanged(request: Request, etag: str, **headers: str) -> Response | None:
    """Return the answer 304 where the reader has `etag` already, else None."""
    given = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    if etag in tags or "*" in tags:
        return Response(status_code=304, headers={"ETag": etag, **headers})
    return None


def immutable(request: Request, body: bytes, *, sha256: str, media_type: str) -> Response:
    """Return bytes that never change under this address, by their SHA-256."""
    etag, caching = f'"{sha256}"', {"Cache-Control": IMMUTABLE}
    return unchanged(request, etag, **caching) or Response(
        body, media_type=media_type, headers={"ETag": etag, **caching}
    )
