"""The page of a certificate, for a stranger: from rows, and what its bundle shows everybody.

What never changes (scores, episodes, template) is read from the bundle once and kept by the
caller. What it is worth is read from the rows for each page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import EvidenceStoreError
from backend.repositories.evidence_views import BundleArchive, find_bundle
from backend.services.certificates import ReadCertificate, read_certificate
from backend.services.resources import TheatreResources
from backend.services.sealed_bundles import fetch_verified_bundle, published_bundle
from backend.services.transparency.publication import verify_signature
from theatre.api.certificate_report import page_of_bundle, page_of_certificate
from theatre.pages.certificate_page import (
    CertificatePage,
    IssuersWord,
    Vouching,
    render_certificate,
)

EPISODES_ON_A_PAGE = 50
"""A page is to be small; all episodes are one link away."""


class RenderedCertificate(NamedTuple):
    """A page, the certificate as it was read, and by when its tier lapses; None for never."""

    certificate_id: str
    page: bytes
    read: ReadCertificate


async def render_page_of(
    connection: AsyncConnection,
    *,
    certificate_id: str | None = None,
    theatre_id: str | None = None,
    accepted: Sequence[str],
    resources: TheatreResources,
    kept: MutableMapping[str, CertificatePage],
    now: datetime,
) -> RenderedCertificate:
    """Return the page of a certificate as it stands now; NotFoundError where there is none.

    `kept` has the parts of pages that never change, by certificate.
    """
    read = await read_certificate(
        connection,
        certificate_id=certificate_id,
        theatre_id=theatre_id,
        accepted=accepted,
        now=now,
    )
    view = read.view
    fixed = kept.get(view.id)
    if fixed is None:
        archive = await find_bundle(connection, view.theatre_id)
        fixed = await _fixed_parts(read, archive, resources, now=now)
        if fixed.episodes is not None:
            kept[view.id] = fixed
    worth = read.worth
    signature = await verify_signature(connection, read.document, view.theatre_id)
    page = replace(
        fixed,
        # To the minute, as it is shown: the same standing is the same page, by its entity tag.
        worth=replace(worth.effective, as_of=now.replace(second=0, microsecond=0)),
        vouching=Vouching(
            issuer=IssuersWord(*signature),
            record=None if worth.run is None else str(worth.run),
            run_by=worth.run_by,
            owner_confirmed=worth.owner_confirmed,
            template_accepted=worth.template_accepted,
        ),
        links=_links(read),
        verification=_verification(read),
    )
    html = await asyncio.to_thread(render_certificate, page)
    return RenderedCertificate(view.id, html.encode(), read)


async def _fixed_parts(
    read: ReadCertificate,
    archive: BundleArchive | None,
    resources: TheatreResources,
    *,
    now: datetime,
) -> CertificatePage:
    """Return what never changes; without the episodes where the evidence cannot be read now."""
    alone = page_of_certificate(read.document, now=now)
    if archive is None:
        return alone
    try:
        return await asyncio.to_thread(_read_bundle, read, archive, resources, now)
    except EvidenceStoreError:
        return alone


def _read_bundle(
    read: ReadCertificate, archive: BundleArchive, resources: TheatreResources, now: datetime
) -> CertificatePage:
    """Return what a stranger may see of a bundle, as `backend.services.evidence` has it. Blocks."""
    theatre_id, disclosure = read.view.theatre_id, read.view.disclosure
    is_closed = disclosure != "public" and (
        # Where no form of it can be published, nothing of any episode is.
        disclosure == "hashes" or published_bundle(resources.store, theatre_id, archive) is None
    )
    bundle = fetch_verified_bundle(resources.store, theatre_id, archive)
    page = page_of_bundle(
        bundle, None, record=None, now=now, most=EPISODES_ON_A_PAGE, is_closed=is_closed
    )
    return replace(page, template=None) if disclosure == "hashes" else page


def _links(read: ReadCertificate) -> Mapping[str, str]:
    view = read.view
    theatre = f"/theatres/{view.theatre_id}"
    links = {
        "document": f"/certificates/{view.id}/document",
        "theatre": theatre,
        "episodes": f"{theatre}/episodes",
        "badge": f"/certificates/{view.id}/badge.svg",
        "page": f"/c/{view.id}",
        "log": "/log",
    }
    if view.disclosure != "hashes":
        links["bundle"] = f"{theatre}/evidence-bundle"
    return links


def _verification(read: ReadCertificate) -> Mapping[str, str] | None:
    """Return where a page finds what it verifies; None where strangers get no bundle."""
    if read.view.disclosure == "hashes":
        return None
    return {
        "bundle": f"/theatres/{read.view.theatre_id}/evidence-bundle",
        "document": f"/certificates/{read.view.id}/document",
        "trust": "/.well-known/echelon/trust.json",
    }
