"""Which archive in the evidence store is a theatre's sealed bundle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import SealedBundle, TheatreCertificate


class BundleArchive(NamedTuple):
    """The archive: the SHA-256 of its bytes, and how many there are."""

    sha256: str
    size_bytes: int


class UnnamedBundle(NamedTuple):
    """A sealed bundle whose archive no row names, by its certificate."""

    theatre_id: str
    sealed_at: datetime
    document: bytes
    """The certificate, in its exact bytes."""


async def insert_bundle(
    connection: AsyncConnection, theatre_id: str, archive: BundleArchive, *, at: datetime
) -> None:
    """Name the archive, in the transaction of the event `sealed`; IntegrityError for a second."""
    row = {"theatre_id": theatre_id, "sealed_at": at, **archive._asdict()}
    await connection.execute(insert(SealedBundle), row)


async def find_bundle(connection: AsyncConnection, theatre_id: str) -> BundleArchive | None:
    """Return the archive of a theatre; None before its run was sealed."""
    table = SealedBundle
    query = select(table.sha256, table.size_bytes).where(table.theatre_id == theatre_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else BundleArchive._make(row)


async def unnamed_bundles(connection: AsyncConnection) -> Sequence[UnnamedBundle]:
    """Return certified bundles without an archive: they were sealed before archives existed."""
    table = TheatreCertificate
    named = select(SealedBundle.theatre_id).where(SealedBundle.theatre_id == table.theatre_id)
    query = select(table.theatre_id, table.issued_at, table.document).where(~named.exists())
    return [UnnamedBundle._make(row) for row in await connection.execute(query)]


async def adopt_bundle(
    connection: AsyncConnection, bundle: UnnamedBundle, archive: BundleArchive
) -> None:
    """Name the archive of a bundle that was sealed before archives, unless a row names it."""
    row = {"theatre_id": bundle.theatre_id, "sealed_at": bundle.sealed_at, **archive._asdict()}
    await connection.execute(insert_or_leave(SealedBundle).values(row).on_conflict_do_nothing())
