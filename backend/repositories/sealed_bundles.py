"""Which archive in the evidence store is a theatre's sealed bundle."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import SealedBundle


class BundleArchive(NamedTuple):
    """The archive: the SHA-256 of its bytes, and how many there are."""

    sha256: str
    size_bytes: int


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
