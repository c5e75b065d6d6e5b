"""Certificates as anybody reads them: the bytes, and the columns that lists need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import TheatreCertificate
from backend.repositories.theatre_views import Place

SHOWN = (
    TheatreCertificate.id,
    TheatreCertificate.theatre_id,
    TheatreCertificate.template_id,
    TheatreCertificate.construct_id,
    TheatreCertificate.construct_version,
    TheatreCertificate.composite_score,
    TheatreCertificate.verification_tier,
    TheatreCertificate.replay_count,
    TheatreCertificate.issued_at,
    TheatreCertificate.expires_at,
    TheatreCertificate.theatre_resolved_at,
)
_UNVERIFIED = "UNVERIFIED"
_AT_A_MOMENT = frozenset({"tier", "status"})
Shape = tuple[str, ...]
"""Which members of a filter restrict, by name."""


class CertificateView(NamedTuple):
    """The columns of a certificate that a list shows."""

    id: str
    theatre_id: str
    template_id: str
    construct_id: str
    construct_version: str
    composite_score: float | None
    verification_tier: str
    replay_count: int
    issued_at: datetime
    expires_at: datetime | None
    theatre_resolved_at: datetime


class CertificateBytes(NamedTuple):
    """A certificate and its SHA-256."""

    document: bytes
    document_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFilter:
    """Which certificates are listed; `tier` and `status` are those of now; None restricts not."""

    construct_id: str | None = None
    construct_version: str | None = None
    tier: str | None = None
    status: str | None = None

    def shape(self) -> Shape:
        """Return the names of what restricts."""
        given = asdict(self)
        return tuple(name for name, value in given.items() if value is not None)

    def as_parameters(self, now: datetime) -> dict[str, object]:
        """Return the parameters of a statement of this shape, at `now`."""
        parameters = {name: value for name, value in asdict(self).items() if value is not None}
        return parameters | ({"now": now} if _AT_A_MOMENT.intersection(parameters) else {})


async def certificate_bytes(
    connection: AsyncConnection, *, certificate_id: str | None = None, theatre_id: str | None = None
) -> CertificateBytes | None:
    """Return a certificate by its id or by its theatre; None where there is none."""
    if certificate_id is not None:
        found = await connection.execute(_BY_ID, {"wanted": certificate_id})
    else:
        found = await connection.execute(_BY_THEATRE, {"wanted": theatre_id})
    row = found.first()
    return None if row is None else CertificateBytes._make(row)


async def certificates_of(
    connection: AsyncConnection,
    wanted: CertificateFilter,
    *,
    now: datetime,
    limit: int,
    offset: int,
    after: Place | None,
) -> Sequence[CertificateView]:
    """Return a page of certificates, the newest first."""
    given = wanted.as_parameters(now) | {"limit": limit, "offset": offset}
    if after is not None:
        given |= {"after_at": after.created_at, "after_id": after.id}
    found = await connection.execute(_page(wanted.shape(), is_later=after is not None), given)
    return [CertificateView._make(row) for row in found]


async def count_certificates(
    connection: AsyncConnection, wanted: CertificateFilter, *, now: datetime
) -> int:
    """Return how many certificates there are."""
    counted = await connection.execute(_count(wanted.shape()), wanted.as_parameters(now))
    return int(counted.scalar_one())


# The statements are made once for each shape: making them took more than answering a request.


@cache
def _page(shape: Shape, *, is_later: bool) -> Select[*tuple[Any, ...]]:
    """Return the statement of a page; a later one begins behind `after_at` and `after_id`."""
    certificate = TheatreCertificate
    query = select(*SHOWN).where(_listed(shape))
    if is_later:
        place = tuple_(
            bindparam("after_at", type_=certificate.issued_at.type),
            bindparam("after_id", type_=certificate.id.type),
        )
        query = query.where(tuple_(certificate.issued_at, certificate.id) < place)
    query = query.order_by(certificate.issued_at.desc(), certificate.id.desc())
    return query.limit(bindparam("limit")).offset(bindparam("offset"))


@cache
def _count(shape: Shape) -> Select[*tuple[Any, ...]]:
    return select(func.count()).select_from(TheatreCertificate).where(_listed(shape))


def _listed(shape: Shape) -> ColumnElement[bool]:
    certificate = TheatreCertificate
    moment = bindparam("now", type_=certificate.expires_at.type)
    # Other statuses need a history, which nothing keeps yet: no certificate has one of them.
    expired = func.coalesce(certificate.expires_at <= moment, literal(value=False))
    effective = case((expired, _UNVERIFIED), else_=certificate.verification_tier)
    columns: dict[str, ColumnElement[Any]] = {
        "construct_id": certificate.construct_id.expression,
        "construct_version": certificate.construct_version.expression,
        "tier": effective,
        "status": case((expired, literal("expired")), else_=literal("current")),
    }
    named = (columns[name] == bindparam(name, type_=columns[name].type) for name in shape)
    return and_(literal(value=True), *named)


_BYTES = select(TheatreCertificate.document, TheatreCertificate.document_sha256)
_BY_ID = _BYTES.where(TheatreCertificate.id == bindparam("wanted"))
_BY_THEATRE = _BYTES.where(TheatreCertificate.theatre_id == bindparam("wanted"))
