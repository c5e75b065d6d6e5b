"""Retention: deletes rows that are no longer needed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, column, delete, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import ApiKey, Dataset


async def delete_keys(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete API keys that expired or were revoked before; return how many."""
    gone = or_(ApiKey.expires_at <= before, ApiKey.revoked_at <= before)
    return (await connection.execute(delete(ApiKey).where(gone))).rowcount


async def delete_uploads(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete rows of older uploads that no template of a theatre names; return how many."""
    old = (Dataset.created_at <= before, Dataset.sha256.not_in(_NAMED))
    return (await connection.execute(delete(Dataset).where(*old))).rowcount


async def find_referenced_datasets(connection: AsyncConnection) -> frozenset[str]:
    """Return the SHA-256 of every dataset that a theatre names or a user uploaded."""
    found = await connection.execute(_NAMED.union(select(Dataset.sha256)))
    return frozenset(found.scalars())


# What drafts name as well as what was committed (a template comes with a theatre, and stays), and
# what a rehearsal ran on.
_NAMED = select(
    text("""
        SELECT DISTINCT value AS sha256
        FROM theatre_templates, jsonb_each_text(template_json -> 'dataset_hashes')
        UNION
        SELECT rehearsal_sha256 FROM theatres WHERE rehearsal_sha256 IS NOT NULL
    """)
    .columns(column("sha256", String))
    .subquery("named")
    .c.sha256
)
