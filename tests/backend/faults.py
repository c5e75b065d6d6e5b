"""Routes for tests: one that raises whatever a test wants, one whose effect is a row."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated
from uuid import uuid4

from fastapi import Depends, Request, Response
from sqlalchemy import insert

from backend.api.http.access_policy import CurrentUser, for_users, public, resource_router
from backend.api.http.bodies import json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.database.models import RegisteredConstruct
from backend.schemas.base import RequestDocument, ResponseDocument


@dataclass(slots=True)
class Faults:
    """What the route `/fault` raises next."""

    error: Exception | None = None
    after_effect: Callable[[], None] = field(default=lambda: None)


faults = Faults()
router = resource_router("faults")


class Claim(RequestDocument):
    construct_id: str


class Claimed(ResponseDocument):
    construct_id: str
    chance: str


@router.get("/fault")
@public()
async def fault() -> None:
    assert faults.error is not None
    raise faults.error


@router.post("/claims", status_code=201)
@for_users(Scope.WRITE)
async def claim_construct(
    request: Request,
    response: Response,
    user: CurrentUser,
    body: Annotated[Claim, Depends(json_body(Claim))],
    transaction: Transaction,
) -> Claimed:
    row = {
        "construct_id": body.construct_id,
        "user_id": user.user_id,
        "created_at": get_service(request).clock(),
    }
    await transaction.execute(insert(RegisteredConstruct), row)
    faults.after_effect()
    response.headers["Location"] = f"/claims/{len(body.construct_id)}"
    return Claimed(construct_id=body.construct_id, chance=str(uuid4()))
