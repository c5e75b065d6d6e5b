"""Construct ids: claimed by users, confirmed by the operator."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import AlreadyRegisteredError
from backend.repositories.registered_constructs import StoredConstruct, register_construct
from theatre.engine.clock import Clock


async def claim_construct(
    connection: AsyncConnection,
    *,
    construct_id: str,
    author: str | None,
    user_id: str,
    clock: Clock,
) -> StoredConstruct:
    """Register a construct id for a user; AlreadyRegisteredError where it has an owner.

    It counts for routing once the operator has confirmed it: `echelon registration confirm`.
    """
    construct = StoredConstruct(
        construct_id=construct_id, author=author, created_at=clock(), confirmed_at=None
    )
    if not await register_construct(connection, construct, user_id=user_id):
        raise AlreadyRegisteredError("expected a construct id that nobody has, got a taken one")
    return construct
