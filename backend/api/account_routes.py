"""Registration and log-in."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from backend.api.http.access_policy import public, resource_router
from backend.api.http.bodies import FORM, describe_body, form_body, json_body
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.auth.tokens import LIFETIME
from backend.schemas.accounts import AccessToken, PasswordGrant, RegisteredUser, Registration
from backend.services import accounts

router = resource_router("auth")


@router.post(
    "/auth/register",
    status_code=201,
    openapi_extra=describe_body(Registration),
)
@public("already-registered", "not-ready", idempotent=False, rate=Rate.LOGIN)
async def register(
    request: Request, body: Annotated[Registration, Depends(json_body(Registration))]
) -> RegisteredUser:
    """Make a user."""
    service = get_service(request)
    user_id = await accounts.register(
        service.engine,
        service.passwords,
        username=body.username,
        email=body.email,
        password=body.password.get_secret_value(),
        clock=service.clock,
    )
    return RegisteredUser(id=user_id, username=body.username, email=body.email)


@router.post(
    "/auth/token",
    openapi_extra=describe_body(PasswordGrant, FORM),
)
@public("unauthenticated", "not-ready", idempotent=False, rate=Rate.LOGIN)
async def issue_token(
    request: Request, form: Annotated[PasswordGrant, Depends(form_body(PasswordGrant))]
) -> AccessToken:
    """Log in: the form of OAuth 2.0's password grant."""
    service = get_service(request)
    token = await accounts.log_in(
        service.engine,
        service.passwords,
        service.tokens,
        username=form.username,
        password=form.password.get_secret_value(),
    )
    return AccessToken(
        access_token=token,
        token_type="bearer",  # noqa: S106 - the name of a kind
        expires_in=int(LIFETIME.total_seconds()),
    )
