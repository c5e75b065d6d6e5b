"""A cache of certificates in memory: documents, whose bytes never change, and pages.

What is cached is answered before the framework sees the request. The routes behind it
(`get_certificate_document`, `show_certificate`) answer the same, more slowly. A page is kept for
one second at most, and never beyond the moment at which its certificate lapses: what is revoked or
disputed is seen in the second after it.
"""

import asyncio
import re
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.api.http.bodies import JSON
from backend.api.http.conditional import OPEN_TO_PAGES, hashed_response
from backend.api.http.html import REVALIDATED, accept_of, html_response, prefers_html
from backend.services.newest_used import NewestUsed
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.clock import Clock
from theatre.pages.certificate_page import CertificatePage

_DOCUMENT = re.compile(r"(/api/v1)?/certificates/([0-9a-f-]{36})/document")
_PAGE = re.compile(r"/c/([0-9a-f-]{36})")
_SHARED_PAGE = re.compile(r"(/api/v1)?/certificates/([0-9a-f-]{36})")
_AT_MOST = 2000
_PAGES_AT_MOST = 500
_PAGE_LIVES = timedelta(seconds=1)

_COMPARISONS_AT_MOST = 100


class CachedDocument(NamedTuple):
    """A certificate as it is given out: its file, and the hashes of document and file."""

    certificate_id: str
    body: bytes
    sha256: str
    digest: str

    @classmethod
    def of(cls, certificate_id: str, document: bytes, sha256: str) -> Self:
        """Return the file of a document, which ends with a line feed; `sha256` is without it."""
        body = document + b"\n"
        return cls(certificate_id, body, sha256, sha256_hex(body))

    def answer(self, request: Request) -> Response:
        """Return the bytes of the file, under the hash of the document."""
        return hashed_response(
            request,
            self.body,
            sha256=self.sha256,
            media_type=JSON,
            digest=self.digest,
            view=f"/certificates/{self.certificate_id}",
        )


class CachedPage(NamedTuple):
    """A page as it was rendered at a moment, and until when it may be given out."""

    certificate_id: str
    body: bytes
    since: datetime
    until: datetime

    @classmethod
    def of(cls, certificate_id: str, body: bytes, *, at: datetime, lapses: datetime | None) -> Self:
        """Return a page that lapses with its certificate, or in a second."""
        until = at + _PAGE_LIVES
        if lapses is not None and lapses > at:
            until = min(until, lapses)
        return cls(certificate_id, body, at, until)

    def answer(self, request: Request) -> Response:
        """Return the page; the reader's copy is asked about again at each use."""
        return html_response(request, self.body, caching=REVALIDATED)


class CertificateCache:
    """The certificates that were read last: documents, pages, and what pages have that is fixed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._documents = NewestUsed[str, CachedDocument](_AT_MOST)
        self._pages = NewestUsed[str, CachedPage](_PAGES_AT_MOST)
        self.fixed = NewestUsed[str, CertificatePage](_PAGES_AT_MOST)
        self.comparisons = NewestUsed[tuple[str, ...], JsonObject](_COMPARISONS_AT_MOST)
        self.turn = asyncio.Lock()
        """Of what computes a comparison: one at a time."""

    def put(self, document: CachedDocument) -> None:
        """Store a certificate."""
        self._documents[document.certificate_id] = document

    def get(self, certificate_id: str) -> CachedDocument | None:
        """Return a cached certificate; None where there is none."""
        return self._documents.find(certificate_id)

    def put_page(self, page: CachedPage) -> None:
        """Store a page."""
        self._pages[page.certificate_id] = page

    def get_page(self, certificate_id: str) -> CachedPage | None:
        """Return a page that is right now; None where there is none."""
        found = self._pages.find(certificate_id)
        # Not before it was made either: a clock may have been set back.
        return found if found is not None and found.since <= self._clock() < found.until else None


class _Route(NamedTuple):
    path: str


class CertificateCacheMiddleware:
    """Answers requests for cached certificates; passes on every other request."""

    def __init__(self, app: ASGIApp, *, cache: CertificateCache) -> None:
        self._app = app
        self._cache = cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]:
            answer = self._find(scope)
            if answer is not None:
                answer.headers.update(OPEN_TO_PAGES)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find(self, scope: Scope) -> Response | None:
        """Return the answer to a request for what is cached; None for any other request."""
        path = scope["path"]
        if found := _PAGE.fullmatch(path):
            return self._page(scope, found[1], "/c/{certificate_id}")
        if found := _DOCUMENT.fullmatch(path):
            kept = self._cache.get(found[2])
            if kept is None:
                return None
            scope["route"] = _Route(f"{found[1] or ''}/certificates/{{certificate_id}}/document")
            return kept.answer(Request(scope))
        found = _SHARED_PAGE.fullmatch(path)
        if found is None or not prefers_html(accept_of(scope)):
            return None
        scope["state"]["negotiated"] = True
        return self._page(scope, found[2], f"{found[1] or ''}/certificates/{{certificate_id}}")

    def _page(self, scope: Scope, certificate_id: str, route: str) -> Response | None:
        kept = self._cache.get_page(certificate_id)
        if kept is None:
            return None
        scope["route"] = _Route(route)
        return kept.answer(Request(scope))
