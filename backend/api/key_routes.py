"""Keys for tools, by their owner."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from backend.api.http.access_policy import CurrentUser, for_owner, for_users, resource_router
from backend.api.http.bodies import describe_body, json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.pages import Listing, Paging
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.errors import RequestRefusedError
from backend.repositories.pages import Place
from backend.repositories.users import find_keys_page
from backend.schemas.accounts import ApiKeyDocument, ApiKeyPage, KeyRequest, NewApiKey
from backend.services import accounts

router = resource_router("keys")


@router.post("/keys", status_code=201, openapi_extra=describe_body(KeyRequest))
# An answer that holds a secret is not kept.
@for_users(Scope.KEYS, idempotent=False)
async def create_key(
    request: Request,
    user: CurrentUser,
    body: Annotated[KeyRequest, Depends(json_body(KeyRequest))],
    transaction: Transaction,
) -> NewApiKey:
    """Make a key. It is in this answer and nowhere else."""
    if not user.scopes.issuperset(body.scopes):
        raise RequestRefusedError("out-of-scope", "a key cannot have scopes that you do not have")
    made = await accounts.create_key(
        transaction,
        user_id=user.user_id,
        name=body.name,
        scopes=body.scopes,
        days=body.expires_in_days,
        clock=get_service(request).clock,
    )
    return NewApiKey(key=made.key, **made.stored._asdict())


@router.get("/keys")
@for_owner(Scope.KEYS)
async def list_keys(user: CurrentUser, transaction: Transaction, asked: Paging) -> ApiKeyPage:
    """List your keys, the newest first, without the keys."""
    listing = Listing("keys", (user.user_id,))
    page = await find_keys_page(transaction, user.user_id, asked.window(listing))
    return ApiKeyPage(
        keys=[ApiKeyDocument.model_validate(key) for key in page.rows],
        **asked.shown(listing, page, lambda last: Place(last.created_at, last.id)),
    )


@router.delete("/keys/{key_id}")
@for_owner(Scope.KEYS, "not-found")
async def revoke_key(
    request: Request, user: CurrentUser, key_id: UUID, transaction: Transaction
) -> ApiKeyDocument:
    """Revoke a key of yours, from now on."""
    stored = await accounts.revoke(
        transaction, key_id=str(key_id), user_id=user.user_id, clock=get_service(request).clock
    )
    return ApiKeyDocument.model_validate(stored)
