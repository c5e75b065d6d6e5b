"""Commitment receipts: public from the moment they are made."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre
from theatre.engine.errors import NotFoundError


async def receipt_of(connection: AsyncConnection, theatre_id: str) -> bytes:
    """Return the canonical receipt of a committed theatre; NotFoundError before, as for none."""
    query = select(Theatre.receipt).where(Theatre.id == theatre_id)
    receipt: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    if receipt is None:
        raise NotFoundError(f"expected the commitment of theatre {theatre_id}, got none")
    return receipt
