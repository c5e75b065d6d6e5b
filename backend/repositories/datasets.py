"""Ground truth that users uploaded: who has which."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Dataset


class StoredDataset(NamedTuple):
    """An upload; the bytes lie in the evidence store under their hash."""

    sha256: str
    size_bytes: int
    lines_total: int
    created_at: datetime


async def find_uploads(connection: AsyncConnection, user_id: str) -> frozenset[str]:
    """Return the SHA-256 of everything that a user uploaded."""
    found = await connection.execute(select(Dataset.sha256).where(Dataset.user_id == user_id))
    return frozenset(found.scalars())


async def find_upload(
    connection: AsyncConnection, sha256: str, *, user_id: str
) -> StoredDataset | None:
    """Return an upload of a user; None where it is not theirs."""
    found = await connection.execute(
        select(Dataset.sha256, Dataset.size_bytes, Dataset.lines_total, Dataset.created_at).where(
            Dataset.sha256 == sha256, Dataset.user_id == user_id
        )
    )
    row = found.first()
    return None if row is None else StoredDataset(*row)


async def insert_upload(
    connection: AsyncConnection, dataset: StoredDataset, *, user_id: str
) -> None:
    """Store that a user has a dataset, unless they have it already."""
    row = {**dataset._asdict(), "user_id": user_id}
    await connection.execute(insert_or_leave(Dataset).values(row).on_conflict_do_nothing())
