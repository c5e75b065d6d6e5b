"""Commitment receipts, public from the moment they are made, and the coins that they name."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreCoin
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError


async def find_receipt(connection: AsyncConnection, theatre_id: str) -> bytes:
    """Return the canonical receipt of a committed theatre; NotFoundError before the commitment."""
    query = select(Theatre.receipt).where(Theatre.id == theatre_id)
    receipt: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    if receipt is None:
        raise NotFoundError(f"expected the commitment of theatre {theatre_id}, got none")
    return receipt


async def find_coin(connection: AsyncConnection, theatre_id: str) -> Coin | None:
    """Return the coin of a committed theatre, which only its worker may read."""
    query = select(TheatreCoin.coin).where(TheatreCoin.theatre_id == theatre_id)
    coin: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    return None if coin is None else Coin(coin)


async def find_coin_sha256(connection: AsyncConnection, theatre_id: str) -> str | None:
    """Return the SHA-256 of a theatre's coin, which the receipt names; None where it has none."""
    digest = func.encode(func.sha256(TheatreCoin.coin), "hex")
    query = select(digest).where(TheatreCoin.theatre_id == theatre_id)
    return (await connection.execute(query)).scalar_one_or_none()
