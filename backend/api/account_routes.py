"""Registration, log-in and passwords."""

from typing import Annotated

from fastapi import Depends, Request

from backend.api.http.access_policy import CurrentUser, for_users, public, resource_router
from backend.api.http.bodies import FORM, describe_body, form_body, json_body
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.auth.tokens import LIFETIME
from backend.schemas.accounts import (
    AccessToken,
    PasswordChange,
    PasswordGrant,
    RegisteredUser,
    Registration,
)
from backend.services import accounts

router = resource_router("auth")


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
