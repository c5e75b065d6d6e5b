"""Construct ids: claimed by users, confirmed, rejected and released by the operator."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import AlreadyRegisteredError, ClaimRejectedError, DecisionError
from backend.repositories.registered_constructs import (
    CLAIM_TERM,
    Decision,
    StoredConstruct,
    claim,
    decide,
    find_claim,
    find_owner,
    lock_construct,
    was_rejected,
)
from theatre.engine.clock import Clock

_EXPECTED = {
    "confirmed": f"an id without an owner that the user has claimed in the last {CLAIM_TERM.days} "
    "days",
    "rejected": "an id that the user claims and does not own",
    "released": "an id that the user owns",
}


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
    await lock_construct(connection, construct_id)
    construct = StoredConstruct(
        construct_id=construct_id, author=author, created_at=clock(), confirmed_at=None
    )
    since = construct.created_at - CLAIM_TERM
    if await was_rejected(connection, construct_id, user_id=user_id, after=since):
        raise ClaimRejectedError(
            f"the operator rejected your claim of this id in the last {CLAIM_TERM.days} days"
        )
    is_owned = await find_owner(connection, construct_id) is not None
    if is_owned or not await claim(connection, construct, user_id=user_id):
        raise AlreadyRegisteredError("this construct id is taken")
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

    DecisionError where there is nothing to decide.
    """
    await lock_construct(connection, construct_id)
    owner = await find_owner(connection, construct_id)
    if decision == "confirmed" and owner == user_id:
        return
    claimed = await find_claim(connection, construct_id, user_id=user_id)
    has_lapsed = claimed is not None and claimed.created_at + CLAIM_TERM <= at
    can_be = {
        "confirmed": owner is None and claimed is not None and not has_lapsed,
        "rejected": owner != user_id and claimed is not None,
        "released": owner == user_id,
    }
    if not can_be[decision]:
        raise DecisionError(f"expected {_EXPECTED[decision]}, got {construct_id}")
    await decide(connection, construct_id, decision, user_id=user_id, at=at)
