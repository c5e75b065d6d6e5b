"""HTML as an answer: who is given it, and the headers that every page has.

A path that programs and people share answers in JSON unless a client names `text/html` and prefers
it (RFC 9110 §12.5.1); `*/*` alone is no preference.
"""

import hashlib
import re
from collections.abc import Mapping

from fastapi import Request
from starlette.responses import Response
from starlette.types import Scope

from backend.api.http.conditional import answer_not_modified

HTML = "text/html; charset=utf-8"
REVALIDATED = "public, no-cache"
"""For pages whose standing may change at any moment: kept, and asked for again at each use."""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; img-src 'self' data:; script-src 'self'; "
    "style-src 'self'",
    "Content-Type": HTML,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Nothing is loaded from elsewhere, nothing inside a page runs, no other page frames it."""
_MAX_ACCEPT = 1000
_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)", re.ASCII | re.IGNORECASE)


def prefers_html(accept: str) -> bool:
    """Tell whether an `Accept` header names HTML and prefers it to JSON; a tie is for JSON."""
    ranges = _read_accept(accept) if len(accept) <= _MAX_ACCEPT else {}
    html, json = _weigh(ranges, "text/html"), _weigh(ranges, "application/json")
    return html[1] > 0 and html[0] > 0 and html > json


def accept_of(scope: Scope) -> str:
    """Return the `Accept` header of a request, all of its lines as one."""
    given = [value for name, value in scope["headers"] if name == b"accept"]
    return b",".join(given).decode("latin-1")


def html_response(
    request: Request,
    page: str | bytes,
    *,
    status: int = 200,
    caching: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page, whose entity tag is the hash of its bytes; 304 where the client has it.

    A 304 has the same headers: a browser takes those of the newest answer for the page.
    """
    body = page.encode() if isinstance(page, str) else page
    sent = {**PAGE_HEADERS, "Cache-Control": caching, **(headers or {})}
    if status != 200:  # noqa: PLR2004 - OK
        return Response(body, status, sent)
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    return answer_not_modified(request, etag, **sent) or Response(
        body, headers={"ETag": etag, **sent}
    )


def _read_accept(accept: str) -> dict[str, float]:
    ranges = {}
    for one in accept.lower().split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        found = (_QUALITY.fullmatch(part) for part in parameters)
        ranges[name] = next((float(quality[1]) for quality in found if quality), 1.0)
    return ranges


def _weigh(ranges: Mapping[str, float], media_type: str) -> tuple[float, int]:
    """Return the quality of a media type, and how exactly it was named: 0 for `*/*` or not."""
    names = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    for exactness, name in zip((2, 1, 0), names, strict=True):
        if name in ranges:
            return min(ranges[name], 1.0), exactness
    return 0.0, 0
