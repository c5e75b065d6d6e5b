"""Public reads of certificates: the bytes, and the columns that lists need."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreCertificate, TheatreTemplate, User
from backend.repositories.counted_runs import OBJECTIONS
from backend.repositories.pages import Place, Window
from backend.repositories.stored_certificates import STORED, StoredCertificate
from backend.repositories.template_views import DISCLOSURE
from backend.repositories.theatres import queryable_text
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.scoring import COMPOSITE
from theatre.engine.tier_assigner import CLOCKS_APART

SHOWN = (
    *STORED,
    User.username,
    OBJECTIONS,
    DISCLOSURE,
    TheatreTemplate.template_json["product_theatre_config"]["withheld"],
    Theatre.total_episodes,
)
"""The columns of a CertificateView, of what `joined_with_run` joins."""
_UNVERIFIED = "UNVERIFIED"
_LIKE_SIGNS = re.compile(r"[\\%_]")
_AT_A_MOMENT = frozenset({"tier", "status"})
Shape = tuple[str, ...]
"""Which members of a filter restrict, by name."""


class CertificateView(NamedTuple):
    """A certificate's row, who ran it and what speaks against it."""

    stored: StoredCertificate
    run_by: str
    objections: Sequence[str]
    disclosure: str
    withheld: JsonObject | None
    """Which episodes the template withholds."""
    total_episodes: int

    @classmethod
    def of(cls, row: Sequence[Any]) -> "CertificateView":
        """Return the view of a row of SHOWN."""
        return cls(StoredCertificate._make(row[: len(STORED)]), *row[len(STORED) :])

    @property
    def place(self) -> Place:
        """Return where it stands in a list."""
        return Place(self.stored.issued_at, self.stored.id)


class CertificateBytes(NamedTuple):
    """A certificate and its SHA-256."""

    document: bytes
    document_sha256: str


class SignedCertificate(NamedTuple):
    """The Sigstore bundle of a certificate, and whose it is."""

    theatre_id: str
    sigstore: bytes


class AuditedCertificate(NamedTuple):
    """What an audit is about, and whose it is."""

    theatre_id: str
    user_id: str
    document: bytes
    statement_sha256: str


class WholeCertificate(NamedTuple):
    """A certificate as a list shows it, and its bytes."""

    view: CertificateView
    document: bytes
    document_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFilter:
    """Which certificates are listed; `tier` and `status` are those of now; None restricts not.

    Rows are found by their columns. What is shown is held to the filter again (`admits`): of a row
    that was not signed so, tier and status are others than the columns say.
    """

    construct_id: str | None = None
    construct_version: str | None = None
    tier: str | None = None
    status: str | None = None
    search: str | None = None
    """Letters in the id of construct or template, in any case."""

    def shape(self) -> Shape:
        """Return the names of what restricts."""
        given = asdict(self)
        return tuple(name for name, value in given.items() if value is not None)

    def admits(self, tier: str, status: str) -> bool:
        """Tell whether it lets a certificate through that is worth this."""
        return self.tier in {None, tier} and self.status in {None, status}

    def as_parameters(self, now: datetime, accepted: Sequence[str]) -> dict[str, object]:
        """Return the parameters of a statement of this shape, at `now`."""
        parameters = {name: value for name, value in asdict(self).items() if value is not None}
        parameters["accepted"] = accepted
        if self.search is not None:
            letters = _LIKE_SIGNS.sub(r"\\\g<0>", queryable_text(self.search))
            parameters["search"] = f"%{letters}%"
        return parameters | ({"now": now} if _AT_A_MOMENT.intersection(parameters) else {})


async def find_certificate_bytes(
    connection: AsyncConnection, certificate_id: str
) -> CertificateBytes | None:
    """Return the bytes of a certificate; None where there is none."""
    row = (await connection.execute(_BYTES, {"wanted": certificate_id})).first()
    return None if row is None else CertificateBytes._make(row)


async def find_audited(
    connection: AsyncConnection, certificate_id: str
) -> AuditedCertificate | None:
    """Return what an audit of a certificate is about; None where there is none."""
    table = TheatreCertificate
    query = select(table.theatre_id, Theatre.user_id, table.document, table.statement_sha256)
    query = query.join(Theatre, Theatre.id == table.theatre_id).where(table.id == certificate_id)
    row = (await connection.execute(query)).first()
    return None if row is None else AuditedCertificate._make(row)


async def find_signed(connection: AsyncConnection, **named: str) -> SignedCertificate | None:
    """Return the signed certificate by its `id`, `theatre_id` or `statement_sha256`.

    None where there is none.
    """
    table = TheatreCertificate
    query = select(table.theatre_id, table.sigstore).filter_by(**named)
    row = (await connection.execute(query)).first()
    return None if row is None else SignedCertificate._make(row)


async def find_certificate(
    connection: AsyncConnection, *, accepted: Sequence[str], **named: str
) -> WholeCertificate | None:
    """Return a certificate by its `certificate_id` or its `theatre_id`; None for none."""
    ((name, wanted),) = named.items()
    row = (await connection.execute(_BY[name], {"wanted": wanted, "accepted": accepted})).first()
    if row is None:
        return None
    *shown, document, sha256 = row
    return WholeCertificate(CertificateView.of(shown), document, sha256)


async def find_certified_document(
    connection: AsyncConnection, theatre_id: str
) -> JsonObject | None:
    """Return the certificate of a theatre as its document; None where there is none."""
    table = TheatreCertificate
    query = select(table.document).where(table.theatre_id == theatre_id)
    document = await connection.scalar(query)
    return None if document is None else parse_object(document)


async def find_composite_intervals(
    connection: AsyncConnection, certificate_ids: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return the intervals of composite scores, by certificate; none where it has none."""
    table = TheatreCertificate
    query = select(table.id, table.document, table.document_sha256)
    found = {}
    for certificate_id, document, sha256 in await connection.execute(
        query.where(table.id.in_(certificate_ids))
    ):
        if sha256_hex(document) != sha256:
            continue  # The hash is the signed one; the bytes are another's.
        certificate = cast("dict[str, Any]", parse_object(document))
        # Of one criterion alone the composite is its score, and so is the interval.
        scores = list(certificate["scores"])
        interval = certificate["score_intervals"][scores[0] if len(scores) == 1 else COMPOSITE]
        if interval["low"] is not None:
            found[certificate_id] = (interval["low"], interval["high"])
    return found


async def find_certificates(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    window: Window,
    *,
    now: datetime,
    accepted: Sequence[str],
) -> Sequence[CertificateView]:
    """Return a page of certificates, the newest first."""
    limit, offset, after = window
    given = wanted.as_parameters(now, accepted) | {"limit": limit, "offset": offset}
    if after is not None:
        given |= {"after_at": after.created_at, "after_id": after.id}
    found = await connection.execute(_page(wanted.shape(), is_later=after is not None), given)
    return [CertificateView.of(row) for row in found]


def joined_with_run(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Return a query of certificates joined with what a CertificateView has of their runs."""
    return (
        query.join(Theatre, Theatre.id == TheatreCertificate.theatre_id)
        .join(TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256)
        .join(User, User.id == Theatre.user_id)
    )


async def count_certificates(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    *,
    now: datetime,
    accepted: Sequence[str],
) -> int:
    """Return how many certificates there are."""
    given = wanted.as_parameters(now, accepted)
    counted = await connection.execute(_count(wanted.shape()), given)
    return int(counted.scalar_one())


async def find_newest_environment(
    connection: AsyncConnection, construct_id: str, construct_version: str
) -> JsonObject | None:
    """Return `environment` of the newest certificate of one version of a construct.

    None where there is no such certificate, or it has none.
    """
    document = await connection.scalar(
        select(TheatreCertificate.document)
        .where(
            TheatreCertificate.construct_id == queryable_text(construct_id),
            TheatreCertificate.construct_version == queryable_text(construct_version),
        )
        .order_by(TheatreCertificate.issued_at.desc(), TheatreCertificate.id.desc())
        .limit(1)
    )
    if document is None:
        return None
    return cast("JsonObject | None", parse_object(document)["environment"])


# Each statement is built once for its shape: building it took longer than answering a request.


@cache
def _page(shape: Shape, *, is_later: bool) -> Select[*tuple[Any, ...]]:
    """Return the statement of a page; a later one begins behind `after_at` and `after_id`."""
    certificate = TheatreCertificate
    query = select(certificate.id).correlate(None)
    query = (joined_with_run(query) if "tier" in shape else query).where(_listed(shape))
    if is_later:
        place = tuple_(
            bindparam("after_at", type_=certificate.issued_at.type),
            bindparam("after_id", type_=certificate.id.type),
        )
        query = query.where(tuple_(certificate.issued_at, certificate.id) < place)
    order = (certificate.issued_at.desc(), certificate.id.desc())
    # Found first: what is shown of a row takes as long for each that an offset passes over.
    query = query.order_by(*order).limit(bindparam("limit")).offset(bindparam("offset"))
    shown = joined_with_run(select(*SHOWN).select_from(certificate))
    return shown.where(certificate.id.in_(query)).order_by(*order)


@cache
def _count(shape: Shape) -> Select[*tuple[Any, ...]]:
    query = select(func.count()).select_from(TheatreCertificate)
    return (joined_with_run(query) if "tier" in shape else query).where(_listed(shape))


def _listed(shape: Shape) -> ColumnElement[bool]:
    certificate = TheatreCertificate
    moment = bindparam("now", type_=certificate.expires_at.type)
    # Other statuses need a history, which is not stored yet: no certificate has one of them.
    expired = func.coalesce(certificate.expires_at <= moment, literal(value=False))
    is_ahead = certificate.issued_at > moment + literal(CLOCKS_APART)
    is_worth_less = or_(expired, is_ahead, func.cardinality(OBJECTIONS) > 0)
    effective = case((is_worth_less, _UNVERIFIED), else_=certificate.verification_tier)
    columns: dict[str, ColumnElement[Any]] = {
        "construct_id": certificate.construct_id.expression,
        "construct_version": certificate.construct_version.expression,
        "tier": effective,
        "status": case((expired, literal("expired")), else_=literal("current")),
    }
    named = [
        columns[name] == bindparam(name, type_=columns[name].type)
        for name in shape
        if name in columns
    ]
    if "search" in shape:
        pattern = bindparam("search", type_=Text)
        named.append(
            or_(certificate.construct_id.ilike(pattern), certificate.template_id.ilike(pattern))
        )
    return and_(literal(value=True), *named)


_is_wanted = TheatreCertificate.id == bindparam("wanted")
_OF_BYTES = (TheatreCertificate.document, TheatreCertificate.document_sha256)
_BYTES = select(*_OF_BYTES).where(_is_wanted)
_WHOLE = joined_with_run(select(*SHOWN, *_OF_BYTES).select_from(TheatreCertificate))
_BY = {
    "certificate_id": _WHOLE.where(_is_wanted),
    "theatre_id": _WHOLE.where(TheatreCertificate.theatre_id == bindparam("wanted")),
}
