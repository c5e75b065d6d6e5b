"""Construct ids, claimed by users."""

from typing import Annotated

from fastapi import Depends, Request

from backend.api.http.access_policy import CurrentUser, for_owner, for_users, resource_router
from backend.api.http.bodies import describe_body, json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.pages import SHA256, Listing, Paging
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.repositories.registered_constructs import find_constructs
from backend.schemas.accounts import ConstructDocument, ConstructPage, ConstructRequest
from backend.services.constructs import claim_construct

router = resource_router("constructs")


@router.post("/constructs", status_code=201, openapi_extra=describe_body(ConstructRequest))
@for_users(Scope.WRITE, "already-registered", "claim-rejected")
async def register_construct(
    request: Request,
    user: CurrentUser,
    body: Annotated[ConstructRequest, Depends(json_body(ConstructRequest))],
    transaction: Transaction,
) -> ConstructDocument:
    """Claim a construct id; the operator confirms it, or the claim lapses after 14 days."""
    stored = await claim_construct(
        transaction,
        construct_id=body.construct_id,
        author=body.author,
        user_id=user.user_id,
        clock=get_service(request).clock,
    )
    return ConstructDocument.model_validate(stored)


@router.get("/constructs")
@for_owner(Scope.READ)
async def list_constructs(
    user: CurrentUser, transaction: Transaction, asked: Paging
) -> ConstructPage:
    """List the construct ids that you claim, the newest first."""
    listing = Listing("constructs", (user.user_id,), keys=SHA256)
    page = await find_constructs(transaction, user.user_id, asked.window(listing))
    return ConstructPage(
        constructs=[ConstructDocument.model_validate(one) for one in page.rows],
        **asked.shown(listing, page, lambda last: last.place),
    )
