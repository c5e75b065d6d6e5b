"""Construct ids, by whoever claims them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from backend.api.bodies import json_body, takes
from backend.api.declared_routes import CurrentUser, for_owner, for_users, resource_router
from backend.api.service import service_of
from backend.api.transactions import Transaction
from backend.auth.principals import Scope
from backend.repositories.registered_constructs import constructs_of
from backend.schemas.constructs import ConstructDocument, ConstructRequest, Constructs
from backend.services.constructs import claim_construct

DECLARED = {
    "register_construct": for_users(Scope.WRITE, "already-registered"),
    "list_constructs": for_owner(Scope.READ),
}
router = resource_router("constructs", DECLARED)


@router.post(
    "/constructs",
    operation_id="register_construct",
    status_code=201,
    openapi_extra=takes(ConstructRequest),
)
async def register_construct(
    request: Request,
    user: CurrentUser,
    body: Annotated[ConstructRequest, Depends(json_body(ConstructRequest))],
    transaction: Transaction,
) -> ConstructDocument:
    """Claim a construct id; the operator confirms it."""
    stored = await claim_construct(
        transaction,
        construct_id=body.construct_id,
        author=body.author,
        user_id=user.user_id,
        clock=service_of(request).clock,
    )
    return ConstructDocument.model_validate(stored)


@router.get("/constructs", operation_id="list_constructs")
async def list_constructs(user: CurrentUser, transaction: Transaction) -> Constructs:
    """List the construct ids that are yours."""
    stored = await constructs_of(transaction, user.user_id)
    return Constructs(constructs=[ConstructDocument.model_validate(one) for one in stored])
