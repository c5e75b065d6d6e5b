"""Pages of one certificate or several, for a stranger: from rows, and what bundles show everybody.

What never changes (scores, episodes, template) is read from the bundle once and kept by the
caller. What it is worth is read from the rows for each page.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import EvidenceStoreError, RateLimitedError
from backend.repositories.certificate_views import CertificateFilter, CertificateView
from backend.repositories.evidence_views import BundleArchive, find_bundle
from backend.repositories.pages import Window
from backend.services.certificates import (
    CurrentStatus,
    ReadCertificate,
    list_certificates,
    read_certificate,
)
from backend.services.resources import TheatreResources
from backend.services.sealed_bundles import PROOFS, fetch_verified_bundle, published_bundle
from backend.services.transparency.publication import proofs_of
from backend.services.transparency.signatures import VerifiedSignature
from theatre.api.certificate_report import MOST_HELD, page_of_bundle, page_of_certificate
from theatre.engine.canonical_json import JsonObject
from theatre.engine.comparison import compare_bundles
from theatre.engine.errors import NotComparableError, NotFoundError
from theatre.pages.badge import render_badge
from theatre.pages.certificate_page import (
    CertificatePage,
    IssuersWord,
    Vouching,
    render_certificate,
    render_report,
    standing_of,
)
from theatre.pages.comparison_page import render_comparison

EPISODES_ON_A_PAGE = 50
"""A page is to be small; all episodes are one link away."""
MOST_COMPARED = 4
MOST_EPISODES_COMPARED = 40_000
"""Of all certificates together: a comparison is computed while its reader waits."""
_OFFERED = 100
_PROOF_BYTES = 64 * 1024
"""Room for what lies next to a bundle."""


async def render_page_of(
    connection: AsyncConnection,
    *,
    resources: TheatreResources,
    kept: MutableMapping[str, CertificatePage],
    now: datetime,
    **named: str,
) -> tuple[bytes, ReadCertificate]:
    """Return the page of a certificate as it stands now, and that; NotFoundError without one.

    `kept` has the parts of pages that never change, by the certificate's hash.
    """
    read = await read_certificate(connection, resources=resources, now=now, **named)
    stored, worth = read.view.stored, read.worth
    archive = await find_bundle(connection, stored.theatre_id)
    # By its hash: what was kept of the signed document is not shown of another one.
    fixed = kept.get(read.sha256)
    if fixed is None:
        fixed = await _fixed_parts(read, archive, resources, now=now)
        if fixed.episodes is not None:
            kept[read.sha256] = fixed
    page = replace(
        fixed,
        certificate=read.document,
        # To the minute, as it is shown: the same standing is the same page, by its entity tag.
        worth=worth.effective._replace(as_of=now.replace(second=0, microsecond=0)),
        vouching=Vouching(
            issuer=_issuers_word(worth.signature),
            record=None if worth.run is None else str(worth.run),
            run_by=worth.run_by,
            owner_confirmed=worth.owner_confirmed,
            template_accepted=worth.template_accepted,
        ),
        links=_links(read, archive),
        verification=_verification(read),
    )
    html = await asyncio.to_thread(render_certificate, page)
    return html.encode(), read


async def draw_badge_of(
    connection: AsyncConnection, certificate_id: str, *, resources: TheatreResources, now: datetime
) -> tuple[str, datetime | None]:
    """Return the badge of a certificate as it stands now, and when the tier on it lapses.

    NotFoundError where there is no such certificate.
    """
    read = await read_certificate(
        connection, certificate_id=certificate_id, resources=resources, now=now
    )
    badge = render_badge(read.document, read.worth.effective)
    return badge, read.view.stored.expires_at


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
    theatre_id, disclosure = read.view.stored.theatre_id, read.view.disclosure
    is_closed = disclosure != "public" and (
        # Where no form of it can be published, nothing of any episode is.
        disclosure == "hashes" or published_bundle(resources.store, theatre_id, archive) is None
    )
    bundle = fetch_verified_bundle(resources.store, theatre_id, archive)
    page = page_of_bundle(
        bundle, None, record=None, now=now, most=EPISODES_ON_A_PAGE, is_closed=is_closed
    )
    return replace(page, template=None) if disclosure == "hashes" else page


def _links(read: ReadCertificate, archive: BundleArchive | None) -> Mapping[str, str]:
    view, own = read.view, read.view.stored.id
    theatre = f"/theatres/{view.stored.theatre_id}"
    links = {
        "document": f"/certificates/{own}/document",
        "theatre": theatre,
        "episodes": f"{theatre}/episodes",
        "badge": f"/certificates/{own}/badge.svg",
        "page": f"/c/{own}",
        "log": "/log",
        "construct": f"/constructs/{quote(view.stored.construct_id, safe='')}",
    }
    if view.disclosure != "hashes":
        links["bundle"] = f"{theatre}/evidence-bundle"
    if archive is not None and _fits_a_file(view, archive.size_bytes):
        links["file"] = f"/c/{own}/file"
    if view.disclosure == "public":
        links["compare"] = f"/compare?certificate={own}"
    return links


def _verification(read: ReadCertificate) -> Mapping[str, str] | None:
    """Return where a page finds what it verifies; None where strangers get no bundle."""
    if read.view.disclosure == "hashes":
        return None
    return {
        "bundle": f"/theatres/{read.view.stored.theatre_id}/evidence-bundle",
        "document": f"/certificates/{read.view.stored.id}/document",
        "trust": "/.well-known/echelon/trust.json",
    }


# The same page as one file, which verifies itself without this service.


async def render_file_of(
    connection: AsyncConnection, certificate_id: str, *, resources: TheatreResources, now: datetime
) -> str:
    """Return the page of a certificate as one file, with its evidence inside.

    NotFoundError where there is no such certificate, where its evidence is not public as a whole,
    and where it is too large for that.
    """
    read = await read_certificate(
        connection, certificate_id=certificate_id, resources=resources, now=now
    )
    theatre_id = read.view.stored.theatre_id
    archive = await find_bundle(connection, theatre_id)
    if archive is None or not _fits_a_file(read.view, archive.size_bytes):
        raise NotFoundError("expected a certificate whose evidence fits a page, got another")
    proofs = await proofs_of(connection, theatre_id)
    return await asyncio.to_thread(_render_file, read, archive, proofs, resources, now)


def _fits_a_file(view: CertificateView, size: int) -> bool:
    return view.disclosure == "public" and size <= MOST_HELD - _PROOF_BYTES


def _render_file(
    read: ReadCertificate,
    archive: BundleArchive,
    proofs: Mapping[str, bytes],
    resources: TheatreResources,
    now: datetime,
) -> str:
    sealed = fetch_verified_bundle(resources.store, read.view.stored.theatre_id, archive)
    with tempfile.TemporaryDirectory(dir=sealed.parent) as folder:
        bundle = Path(folder) / sealed.name
        shutil.copytree(sealed, bundle)
        for name, content in proofs.items():
            path = bundle / PROOFS / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        page = page_of_bundle(bundle, None, record=None, now=now)
    run = read.worth.run
    vouching = Vouching(
        issuer=_issuers_word(read.worth.signature),
        record=None if run is None else str(run),
        run_by=read.worth.run_by,
    )
    return render_report(replace(page, worth=read.worth.effective, vouching=vouching))


def _issuers_word(signature: VerifiedSignature) -> IssuersWord:
    return IssuersWord(signature.signed_by, signature.entry, signature.why_not)


# Certificates of one template side by side.


Comparisons = MutableMapping[tuple[str, ...], JsonObject]
"""Comparisons by the ids of their certificates: bundles never change, so neither do these."""


async def render_comparison_of(
    connection: AsyncConnection,
    certificate_ids: Sequence[str],
    *,
    resources: TheatreResources,
    kept: Comparisons,
    turn: asyncio.Lock,
    now: datetime,
) -> str:
    """Return the page that compares certificates whose evidence is public as a whole.

    One comparison is computed at a `turn`. Raises NotFoundError for an unknown certificate,
    NotComparableError for certificates that cannot be compared, or not here, and RateLimitedError
    while another comparison is computed.
    """
    if len(certificate_ids) > MOST_COMPARED:
        raise NotComparableError(
            f"expected at most {MOST_COMPARED} certificates, got {len(certificate_ids)}: "
            "`echelon compare` takes more"
        )
    reads = [
        await read_certificate(connection, certificate_id=one, resources=resources, now=now)
        for one in certificate_ids
    ]
    _require_signed(reads)
    _require_open([read.view for read in reads])
    key = tuple(read.view.stored.id for read in reads)
    comparison = kept.get(key)
    if comparison is None:
        archives = [await find_bundle(connection, read.view.stored.theatre_id) for read in reads]
        pairs = [
            (read.view.stored.theatre_id, archive)
            for read, archive in zip(reads, archives, strict=True)
            if archive is not None
        ]
        if turn.locked():
            # Who waited here would keep a connection of the database from others.
            raise RateLimitedError(
                "expected one comparison at a time, got another while one is computed",
                retry_after=2,
            )
        async with turn:
            comparison = kept[key] = await asyncio.to_thread(_compare, pairs, resources)
    names = list(cast("dict[str, JsonObject]", comparison["runs"]))
    links = {name: f"/c/{one}" for name, one in zip(names, key, strict=True)}
    worths = {
        name: standing_of(read.worth.effective, Vouching()).words
        for name, read in zip(names, reads, strict=True)
    }
    return await asyncio.to_thread(render_comparison, comparison, links, worths)


def _require_signed(reads: Sequence[ReadCertificate]) -> None:
    for read in reads:
        if read.worth.signature.signed_by is None:
            raise NotComparableError(
                "expected certificates with a signature that counts, got "
                f"{read.view.stored.id}: {read.worth.signature.why_not}"
            )


def _require_open(views: Sequence[CertificateView]) -> None:
    closed = [view.stored.id for view in views if view.disclosure != "public"]
    if closed:
        raise NotComparableError(
            f"expected certificates whose evidence is public as a whole, got {closed[0]}, which "
            "withholds some: its owner can compare it with `echelon compare`"
        )
    episodes = sum(view.total_episodes for view in views)
    if episodes > MOST_EPISODES_COMPARED:
        raise NotComparableError(
            f"expected at most {MOST_EPISODES_COMPARED} episodes together, got {episodes}: "
            "`echelon compare` takes more"
        )


def _compare(pairs: Sequence[tuple[str, BundleArchive]], resources: TheatreResources) -> JsonObject:
    return compare_bundles(
        [fetch_verified_bundle(resources.store, theatre_id, one) for theatre_id, one in pairs]
    )


async def others_to_compare(
    connection: AsyncConnection, certificate_id: str, *, resources: TheatreResources, now: datetime
) -> tuple[CertificateView, list[tuple[CertificateView, CurrentStatus]]]:
    """Return a certificate, and the newest others of its template that can be compared with it."""
    read = await read_certificate(
        connection, certificate_id=certificate_id, resources=resources, now=now
    )
    own = read.view.stored
    wanted = CertificateFilter(search=own.template_id)
    found = await list_certificates(
        connection, wanted, Window(_OFFERED), resources=resources, now=now
    )
    return read.view, [
        (view, worth)
        for view, worth in found.rows
        if view.stored.template_id == own.template_id
        and view.stored.id != own.id
        and view.disclosure == "public"
        and worth.signature.signed_by is not None
    ]
