"""Construct ids: claimed by users, confirmed, rejected and released by the operator."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import AlreadyRegisteredError, ClaimRejectedError, DecisionError
from backend.repositories.registered_constructs import (
    CLAIM_KEPT,
    Decision,
    StoredConstruct,
    claim,
    claim_of,
    decide,
    hold_construct,
    was_rejected,
)
from theatre.engine.clock import Clock


async def claim_construct(
    connection: AsyncConnection,
    *,
    construct_id: str,
    author: str | None,
    user_id: str,
    clock: Clock,
) -> StoredConstruct:
    """Claim a construct id for a user, until the operator has decided or the claim lapses.

    Raises AlreadyRegisteredError where the id has an owner, or another claim that has not lapsed;
    ClaimRejectedError for a user whose claim of it was rejected lately.
    """
    await hold_construct(connection, construct_id)
    construct = StoredConstruct(
        construct_id=construct_id, author=author, created_at=clock(), confirmed_at=None
    )
    since = construct.created_at - CLAIM_KEPT
    if await was_rejected(connection, construct_id, user_id=user_id, after=since):
        raise ClaimRejectedError(
            f"expected an id that the operator has not refused you in the last {CLAIM_KEPT.days} "
            "days, got one"
        )
    if not await claim(connection, construct, user_id=user_id):
        raise AlreadyRegisteredError("expected a construct id that nobody has, got a taken one")
    return construct


async def decide_claim(
    connection: AsyncConnection,
    construct_id: str,
    decision: Decision,
    *,
    user_id: str,
    at: datetime,
) -> None:
    """Confirm, reject or release a user's id, as the operator. Confirming twice changes nothing.

    DecisionError where there is nothing to decide: no claim that waits, or nothing confirmed.
    """
    await hold_construct(connection, construct_id)
    claimed = await claim_of(connection, construct_id, user_id=user_id)
    is_confirmed = claimed is not None and claimed.confirmed_at is not None
    if decision == "confirmed" and is_confirmed:
        return
    if is_confirmed is not (decision == "released") or claimed is None:
        expected = "an id that is confirmed" if decision == "released" else "a claim that waits"
        raise DecisionError(f"expected {expected} for this user, got {construct_id} without one")
    if decision == "confirmed" and claimed.lapses_at is not None and claimed.lapses_at <= at:
        raise DecisionError(
            f"expected a claim of the last {CLAIM_KEPT.days} days, got one of {construct_id} that "
            "has lapsed: it has to be claimed anew"
        )
    await decide(connection, construct_id, decision, user_id=user_id, at=at)
