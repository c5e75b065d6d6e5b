"""Pages for everyone: certificates, constructs, templates, the log, badges, and static files.

No page here reads a credential or sets a cookie. docs/design/pages.md.
"""

import hashlib
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import Response

from backend.api.certificate_cache import CachedPage
from backend.api.certificate_routes import certificate_summary, routing_document
from backend.api.http.access_policy import public
from backend.api.http.conditional import FRESH, IMMUTABLE, answer_not_modified
from backend.api.http.html import REVALIDATED, html_response
from backend.api.http.idempotency import Reading
from backend.api.http.pages import NO_NUL, Cursor, Listing, PageRequest
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.api.http.visitors import page_router
from backend.api.log_routes import record_document
from backend.api.template_routes import template_document
from backend.repositories.certificate_views import CertificateFilter, find_composite_intervals
from backend.repositories.pages import Window
from backend.repositories.transparency_log import find_listed_entries
from backend.schemas.certificates import CertificatePage
from backend.services import certificates as service_certificates
from backend.services.certificate_pages import (
    draw_badge_of,
    others_to_compare,
    render_comparison_of,
    render_file_of,
    render_page_of,
)
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.pages import served
from theatre.pages.badge import render_badge
from theatre.pages.comparison_page import render_choice
from theatre.transparency.entries import decode_entry

router = page_router()
certificates = page_router(shared=True)
"""Of certificates: served at the paths of the interface with its prefix, too."""
shared = page_router(shared=True)
constructs = page_router()
"""At whatever no route of the interface has below `/constructs/`: an id may hold slashes."""
_ON_A_PAGE = 20
_ENTRIES = 50
_SHORT = timedelta(seconds=30)
_HIGHEST = 2**62
_SVG = "image/svg+xml"
_BADGE_HEADERS = {
    # An image may be opened as a page of its own: nothing in it runs there.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": _SVG}
ConstructId = Annotated[str, Path(max_length=255, pattern=NO_NUL)]


@router.get("/")
@public(rate=Rate.PAGE)
async def show_home(
    request: Request,
    reading: Reading,
    *,
    search: Annotated[str, Query(max_length=255, pattern=NO_NUL)] = "",
    cursor: Cursor = None,
) -> Response:
    """Show what was certified last, or what a search finds."""
    service = get_service(request)
    asked = PageRequest(_ON_A_PAGE, 0, cursor)
    listing = Listing("home", (search,))
    page = await service_certificates.list_certificates(
        reading,
        CertificateFilter(search=search.strip() or None),
        asked.window(listing),
        resources=service.resources,
        now=service.clock(),
    )
    shown = CertificatePage(
        certificates=[certificate_summary(view, worth) for view, worth in page.rows],
        **asked.shown(listing, page, lambda last: last[0].place),
    )
    html = served.home_page(shown.model_dump(mode="json"), search=search)
    return html_response(request, html, caching=REVALIDATED)


@router.get("/c/{certificate_id}")
@certificates.get("/certificates/{certificate_id}")
@public("not-found", rate=Rate.PAGE)
async def show_certificate(request: Request, certificate_id: UUID, reading: Reading) -> Response:
    """Show a certificate, and what it is worth now."""
    return (await _certificate(request, reading, certificate_id=str(certificate_id))).answer(
        request
    )


@certificates.get("/theatres/{theatre_id}/certificate")
@public("not-found", rate=Rate.PAGE)
async def show_theatre_certificate(
    request: Request, theatre_id: UUID, reading: Reading
) -> Response:
    """Show the certificate of a theatre."""
    return (await _certificate(request, reading, theatre_id=str(theatre_id))).answer(request)


async def _certificate(request: Request, reading: AsyncConnection, **named: str) -> CachedPage:
    service = get_service(request)
    # Before anything is read: what happens meanwhile is at most a second late.
    now = service.clock()
    html, read = await render_page_of(
        reading,
        resources=service.resources,
        kept=service.certificates.fixed,
        now=now,
        **named,
    )
    stored = read.view.stored
    page = CachedPage.of(stored.id, html, at=now, lapses=stored.expires_at)
    service.certificates.put_page(page)
    return page


@constructs.get("/constructs/{construct_id:name}")
@public(rate=Rate.PAGE)
async def show_construct(request: Request, construct_id: ConstructId, reading: Reading) -> Response:
    """Show what came of all commitments of a construct, and its versions over time."""
    service = get_service(request)
    now = service.clock()
    record = await record_document(reading, construct_id, None, now=now)
    routing = await routing_document(request, reading, construct_id)
    found = await service_certificates.list_certificates(
        reading,
        CertificateFilter(construct_id=construct_id),
        Window(100),
        resources=service.resources,
        now=now,
    )
    html = served.construct_page(
        record.model_dump(mode="json"),
        routing.model_dump(mode="json"),
        [certificate_summary(*one).model_dump(mode="json") for one in found.rows],
        await find_composite_intervals(reading, [view.stored.id for view, _ in found.rows]),
    )
    return html_response(request, html, caching=REVALIDATED)


@router.get("/c/{certificate_id}/file")
@public("not-found", rate=Rate.PAGE)
async def download_certificate(
    request: Request, certificate_id: UUID, reading: Reading
) -> Response:
    """Give the page of a certificate as one file, with its evidence inside."""
    service = get_service(request)
    html = await render_file_of(
        reading, str(certificate_id), resources=service.resources, now=service.clock()
    )
    # Its own policy stands in the file: what is opened here must not run its scripts.
    sent = {"Content-Disposition": f'attachment; filename="certificate-{certificate_id}.html"'}
    return html_response(request, html, caching=REVALIDATED, headers=sent)


@router.get("/compare")
@public("not-found", "not-comparable", rate=Rate.PAGE)
async def show_comparison(
    request: Request,
    reading: Reading,
    *,
    certificate: Annotated[list[UUID], Query(min_length=1, max_length=50)],
) -> Response:
    """Show certificates of one template side by side; of one alone, what to compare it with."""
    service = get_service(request)
    resources, now = service.resources, service.clock()
    first, *others = map(str, certificate)
    if not others:
        view, found = await others_to_compare(reading, first, resources=resources, now=now)
        shown = [certificate_summary(*one).model_dump(mode="json") for one in found]
        chosen = {
            "certificate_id": view.stored.id,
            "construct_id": view.stored.construct_id,
            "template_id": view.stored.template_id,
            "issued_at": format_rfc3339(view.stored.issued_at),
        }
        return html_response(request, render_choice(chosen, shown), caching=REVALIDATED)
    html = await render_comparison_of(
        reading,
        [first, *others],
        resources=resources,
        kept=service.certificates.comparisons,
        turn=service.certificates.turn,
        now=now,
    )
    return html_response(request, html, caching=REVALIDATED)


@shared.get("/templates/{template_id}")
@public("not-found", rate=Rate.PAGE)
async def show_template(
    request: Request,
    template_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    reading: Reading,
    *,
    sha256: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")] = None,
) -> Response:
    """Show in words what a committed template measures."""
    document = await template_document(request, reading, template_id, sha256)
    html = served.template_page(document.model_dump(mode="json"))
    return html_response(request, html, caching=FRESH)


@router.get("/log")
@public(rate=Rate.PAGE)
async def show_log(
    request: Request,
    reading: Reading,
    *,
    before: Annotated[int | None, Query(ge=0, le=_HIGHEST)] = None,
) -> Response:
    """Show the entries of the log, the newest first."""
    newest = await find_listed_entries(reading, before=None, limit=1)
    rows = await find_listed_entries(reading, before=before, limit=_ENTRIES)
    entries = []
    for row in rows:
        kind, members = decode_entry(row.entry)
        entries.append(
            {
                "index": row.place,
                "type": kind.value,
                "members": members,
                "certificate_id": row.certificate_id,
            }
        )
    is_last = not rows or rows[-1].place == 0
    size = newest[0].place + 1 if newest else 0
    html = served.log_page(entries, size=size, older=None if is_last else rows[-1].place)
    return html_response(request, html, caching=REVALIDATED)


# Badges, for pages of others.


@router.get("/certificates/{certificate_id}/badge.svg")
@public("not-found")
async def show_badge(request: Request, certificate_id: UUID, reading: Reading) -> Response:
    """Draw the badge of a certificate as it stands now."""
    return await _badge(request, reading, str(certificate_id))


@router.get("/badge/{construct_id:name}.svg")
@public()
async def show_construct_badge(
    request: Request, construct_id: ConstructId, reading: Reading
) -> Response:
    """Draw the badge of the certificate that decides about a construct now."""
    routed = await routing_document(request, reading, construct_id)
    if routed.certificate_id is None:
        return _send_badge(request, render_badge(None, None), until=_SHORT)
    return await _badge(request, reading, routed.certificate_id)


async def _badge(request: Request, reading: AsyncConnection, certificate_id: str) -> Response:
    service = get_service(request)
    now = service.clock()
    drawn, lapses = await draw_badge_of(
        reading, certificate_id, resources=service.resources, now=now
    )
    # Never beyond the second of its lapse.
    left = _SHORT if lapses is None or lapses <= now else min(_SHORT, lapses - now)
    return _send_badge(request, drawn, until=left)


def _send_badge(request: Request, drawn: str, *, until: timedelta) -> Response:
    body = drawn.encode()
    caching = {"Cache-Control": f"public, max-age={int(until.total_seconds())}", **_BADGE_HEADERS}
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    return answer_not_modified(request, etag, **caching) or Response(
        body, media_type=_SVG, headers={"ETag": etag, **caching}
    )


# Static files: the address has the hash of the bytes, so these never change under it.


@router.get("/static/{name}")
@public("not-found")
async def get_static(
    request: Request, name: str, *, v: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    """Return a file that pages load."""
    body = _static_files().get(name)
    if body is None:
        raise NotFoundError("expected a file that pages load, got another name")
    sha256 = hashlib.sha256(body).hexdigest()
    # Of another release the address is good, but not for ever.
    is_this = v != "" and sha256.startswith(v)
    caching = {
        "Cache-Control": IMMUTABLE if is_this else FRESH,
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    etag = f'"{sha256}"'
    return answer_not_modified(request, etag, **caching) or Response(
        body, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers={"ETag": etag, **caching}
    )


@cache
def _static_files() -> dict[str, bytes]:
    """Return the files by name: nothing else is ever opened for a request."""
    folder = files("theatre.pages").joinpath("static")
    return {
        one.name: one.read_bytes()
        for one in folder.iterdir()
        if one.is_file() and one.name.rpartition(".")[2] in _MEDIA_TYPES
    }
