"""What users have: an account, keys for tools, claimed construct ids, budgets for judges."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from backend.api.http.access_policy import (
    CurrentUser,
    for_owner,
    for_users,
    public,
    resource_router,
)
from backend.api.http.bodies import FORM, describe_body, form_body, json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.pages import SHA256, Listing, Paging
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.auth.tokens import LIFETIME
from backend.errors import RequestRefusedError
from backend.repositories.judge_ledger import read_budgets
from backend.repositories.pages import Place
from backend.repositories.registered_constructs import find_constructs
from backend.repositories.users import find_keys_page
from backend.schemas.accounts import (
    AccessToken,
    ApiKeyDocument,
    ApiKeyPage,
    Budgets,
    ConstructDocument,
    ConstructPage,
    ConstructRequest,
    KeyRequest,
    NewApiKey,
    PasswordChange,
    PasswordGrant,
    RegisteredUser,
    Registration,
)
from backend.services import accounts
from backend.services.constructs import claim_construct

router = resource_router("auth")
keys = resource_router("keys")
constructs = resource_router("constructs")
budgets = resource_router("budgets")


@router.post("/auth/register", status_code=201, openapi_extra=describe_body(Registration))
@public(
    "already-registered",
    "invite-invalid",
    "registration-closed",
    "not-ready",
    idempotent=False,
    rate=Rate.LOGIN,
)
async def register(
    request: Request, body: Annotated[Registration, Depends(json_body(Registration))]
) -> RegisteredUser:
    """Make a user, where the service registers them; it may ask for an `invite`."""
    service = get_service(request)
    user_id = await accounts.register(
        service.engine,
        service.passwords,
        service.settings.registering,
        username=body.username,
        email=body.email,
        password=body.password.get_secret_value(),
        invite=None if body.invite is None else body.invite.get_secret_value(),
        clock=service.clock,
    )
    return RegisteredUser(id=user_id, username=body.username, email=body.email)


@router.post("/auth/token", openapi_extra=describe_body(PasswordGrant, FORM))
@public("unauthenticated", "not-ready", idempotent=False, rate=Rate.LOGIN)
async def issue_token(
    request: Request, form: Annotated[PasswordGrant, Depends(form_body(PasswordGrant))]
) -> AccessToken:
    """Log in: the form of OAuth 2.0's password grant."""
    service = get_service(request)
    service.rates.admit_log_in(form.username)
    token = await accounts.log_in(
        service.engine,
        service.passwords,
        service.tokens,
        username=form.username,
        password=form.password.get_secret_value(),
    )
    return _access(token)


@router.post("/auth/password", openapi_extra=describe_body(PasswordChange))
# An answer that holds a secret is not kept.
@for_users(Scope.KEYS, "wrong-password", "not-ready", idempotent=False, rate=Rate.LOGIN)
async def change_password(
    request: Request,
    user: CurrentUser,
    body: Annotated[PasswordChange, Depends(json_body(PasswordChange))],
) -> AccessToken:
    """Change your password. All your tokens end, and this answers a new one; keys stay good."""
    service = get_service(request)
    service.rates.admit_log_in(user.username)
    token = await accounts.change_password(
        service.engine,
        service.passwords,
        service.tokens,
        user.user_id,
        old=body.old_password.get_secret_value(),
        new=body.new_password.get_secret_value(),
    )
    return _access(token)


def _access(token: str) -> AccessToken:
    return AccessToken(
        access_token=token,
        token_type="bearer",  # noqa: S106 - the name of a kind
        expires_in=int(LIFETIME.total_seconds()),
    )


# Keys for tools.


@keys.post("/keys", status_code=201, openapi_extra=describe_body(KeyRequest))
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


@keys.get("/keys")
@for_owner(Scope.KEYS)
async def list_keys(user: CurrentUser, transaction: Transaction, asked: Paging) -> ApiKeyPage:
    """List your keys, the newest first, without the keys."""
    listing = Listing("keys", (user.user_id,))
    page = await find_keys_page(transaction, user.user_id, asked.window(listing))
    return ApiKeyPage(
        keys=[ApiKeyDocument.model_validate(key) for key in page.rows],
        **asked.shown(listing, page, lambda last: Place(last.created_at, last.id)),
    )


@keys.delete("/keys/{key_id}")
@for_owner(Scope.KEYS, "not-found")
async def revoke_key(
    request: Request, user: CurrentUser, key_id: UUID, transaction: Transaction
) -> ApiKeyDocument:
    """Revoke a key of yours, from now on."""
    stored = await accounts.revoke(
        transaction, key_id=str(key_id), user_id=user.user_id, clock=get_service(request).clock
    )
    return ApiKeyDocument.model_validate(stored)


# Construct ids, claimed by users.


@constructs.post("/constructs", status_code=201, openapi_extra=describe_body(ConstructRequest))
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


@constructs.get("/constructs")
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


# What the operator lets a user's runs spend on judges.


@budgets.get("/judge-budgets")
@for_owner(Scope.READ)
async def get_judge_budgets(
    request: Request, user: CurrentUser, transaction: Transaction
) -> Budgets:
    """Say what your runs may still spend on judges; without a budget none is asked."""
    day = get_service(request).clock().date()
    found = await read_budgets(transaction, user.user_id, day=day)
    return Budgets.model_validate({"day": day, "budgets": found})
