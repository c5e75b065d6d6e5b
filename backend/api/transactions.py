"""The transaction of a request: committed before the answer is sent, or no answer is 2xx."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.api.idempotency import claim_key
from backend.api.service import get_service


async def get_transaction(request: Request) -> AsyncIterator[AsyncConnection]:
    """Yield a connection in a transaction. What is raised in the route rolls it back.

    The idempotency key of a POST, where it has one, is claimed in it.
    """
    async with get_service(request).engine.begin() as connection:
        await claim_key(request, connection)
        yield connection


async def get_reading(request: Request) -> AsyncIterator[AsyncConnection]:
    """Yield a connection in autocommit mode, for routes that only read.

    That saves the two round trips which begin and end a transaction. What is read by two
    statements may be of two moments, as it may in a transaction that is READ COMMITTED.
    """
    async with get_service(request).engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")


# scope="function" matters: FastAPI's default commits after the answer is sent (docs/adr/0079).
Transaction = Annotated[AsyncConnection, Depends(get_transaction, scope="function")]
Reading = Annotated[AsyncConnection, Depends(get_reading, scope="function")]
