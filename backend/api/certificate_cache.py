"""A cache of certificates in memory: their bytes never change, and they are read often.

A cached certificate is answered before the framework sees the request. The route behind it
(`get_certificate_document`) answers the same, more slowly.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import NamedTuple, Self

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.api.http.bodies import JSON
from backend.api.http.conditional import OPEN_TO_PAGES, immutable_response
from theatre.engine.canonical_json import sha256_hex

_DOCUMENT = re.compile(r"(/api/v1)?/certificates/([0-9a-f-]{36})/document")
_AT_MOST = 2000


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
        return immutable_response(
            request,
            self.body,
            sha256=self.sha256,
            media_type=JSON,
            digest=self.digest,
            view=f"/certificates/{self.certificate_id}",
        )


class DocumentCache:
    """The certificates that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, CachedDocument] = OrderedDict()

    def put(self, document: CachedDocument) -> None:
        """Store a certificate; the least recently read one is dropped."""
        self._kept[document.certificate_id] = document
        if len(self._kept) > _AT_MOST:
            self._kept.popitem(last=False)

    def get(self, certificate_id: str) -> CachedDocument | None:
        """Return a cached certificate; None where there is none."""
        found = self._kept.get(certificate_id)
        if found is not None:
            self._kept.move_to_end(certificate_id)
        return found


class _Route(NamedTuple):
    """The route's name in metrics and logs."""

    path: str


class CertificateCacheMiddleware:
    """Answers requests for cached certificates; passes on every other request."""

    def __init__(self, app: ASGIApp, *, cache: DocumentCache) -> None:
        self._app = app
        self._cache = cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]:
            found = _DOCUMENT.fullmatch(scope["path"])
            kept = None if found is None else self._cache.get(found[2])
            if found is not None and kept is not None:
                scope["route"] = _Route(
                    f"{found[1] or ''}/certificates/{{certificate_id}}/document"
                )
                answer = kept.answer(Request(scope))
                answer.headers.update(OPEN_TO_PAGES)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
