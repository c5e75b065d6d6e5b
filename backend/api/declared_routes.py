"""Routes that say beside their router whom they serve, and keep to it.

A router is made by `resource_router(tag, DECLARED)`, where DECLARED has a line for each operation
id. A route without a line cannot be made. Before a route's own code runs, unknown query parameters
are refused, and who asks is proven as its line asks for; `CurrentUser` is that principal.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, cast

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response

from backend.api.idempotency import ReplayedAnswer, keep_if_claimed
from backend.api.interface import PROBLEM
from backend.api.problems import MEDIA_TYPE
from backend.api.service import service_of
from backend.auth.principals import Principal, Scope
from backend.errors import (
    OutOfScopeError,
    RequestInvalidError,
    RequestViolation,
    UnauthenticatedError,
)
from backend.services.accounts import principal_of

_BEARER = "bearer "
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": PROBLEM}}},
    }
}
_FIRST_REFUSAL = 400


class Access(StrEnum):
    """Whom a route serves."""

    PUBLIC = "public"
    """Anybody: nothing that it answers belongs to a user."""
    USER = "user"
    """Any user, with something that is nobody else's."""
    OWNER = "owner"
    """The owner of what the path names; for everybody else it is not there (404)."""
    DISCLOSED = "disclosed"
    """The owner, and anybody once it is public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Whom a route serves, what a key needs for it, and whether `Idempotency-Key` is kept."""

    access: Access
    scope: Scope | None = None
    idempotent: bool = True


def public(*, idempotent: bool = True) -> Declared:
    """Declare a route for anybody."""
    return Declared(access=Access.PUBLIC, idempotent=idempotent)


def for_users(scope: Scope, *, idempotent: bool = True) -> Declared:
    """Declare a route for any user."""
    return Declared(access=Access.USER, scope=scope, idempotent=idempotent)


def for_owner(scope: Scope, *, idempotent: bool = True) -> Declared:
    """Declare a route for the owner of what its path names."""
    return Declared(access=Access.OWNER, scope=scope, idempotent=idempotent)


def disclosed(scope: Scope) -> Declared:
    """Declare a route for the owner, and for anybody once what it answers is public."""
    return Declared(access=Access.DISCLOSED, scope=scope)


class DeclaredRoute(APIRoute):
    """A route with its declaration. See the module."""

    table: ClassVar[Mapping[str, Declared]] = {}

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401 - FastAPI's own
        operation_id = str(options.get("operation_id"))
        if operation_id not in self.table:
            raise TypeError(f"expected a declaration of {operation_id} beside its router, got none")
        self.declared = self.table[operation_id]
        if self.declared.access is not Access.PUBLIC:
            extra = options.get("openapi_extra") or {}
            options["openapi_extra"] = {"security": [{"bearer": []}], **extra}
        super().__init__(path, endpoint, **options)
        self._query = frozenset(
            field.alias for one in whole(self.dependant) for field in one.query_params
        )

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def admitted(request: Request) -> Response:
            self._refuse_other_parameters(request)
            request.state.declared = self.declared
            request.state.principal = await self._admit(request)
            try:
                response = await answer(request)
            except ReplayedAnswer as replayed:
                response = replayed.response
            else:
                if response.status_code >= _FIRST_REFUSAL:
                    raise TypeError("expected a refusal to be raised, got one returned")
                await keep_if_claimed(request, response)
            if self.declared.access is not Access.PUBLIC:
                _keep_private(response)
            return response

        return admitted

    def _refuse_other_parameters(self, request: Request) -> None:
        seen = [name for name, _ in request.query_params.multi_items()]
        wrong = [
            RequestViolation("query", "unknown-parameter", f"expected {self._expected()}")
            for name in seen
            if name not in self._query
        ]
        if not wrong and len(set(seen)) != len(seen):
            wrong = [RequestViolation("query", "repeated-parameter", "expected each once")]
        if wrong:
            raise RequestInvalidError(wrong[:1])

    def _expected(self) -> str:
        return f"only {', '.join(sorted(self._query))}" if self._query else "no parameters"

    async def _admit(self, request: Request) -> Principal | None:
        if self.declared.access is Access.PUBLIC:
            return None
        credential = _credential(request)
        if credential is None:
            if self.declared.access is Access.DISCLOSED:
                return None
            raise UnauthenticatedError("expected a bearer credential, got none")
        service = service_of(request)
        principal = await principal_of(
            service.engine, service.tokens, credential, clock=service.clock
        )
        if self.declared.scope is not None and self.declared.scope not in principal.scopes:
            raise OutOfScopeError(f"expected a key with the scope {self.declared.scope}")
        return principal


def resource_router(tag: str, declared: Mapping[str, Declared]) -> APIRouter:
    """Return a router whose routes keep to `declared`, by operation id."""
    route_class = type("Declared" + tag.title(), (DeclaredRoute,), {"table": declared})
    return APIRouter(tags=[tag], route_class=route_class, responses=PROBLEMS)


# Not plain functions: FastAPI would run those in a thread each.
async def get_current_user(request: Request) -> Principal:
    """Return who asks; only routes for users and owners may depend on it."""
    principal = cast("Principal | None", request.state.principal)
    if principal is None:
        raise TypeError("expected a route that is declared for users, got another")
    return principal


async def get_reader(request: Request) -> Principal | None:
    """Return who asks on a disclosed route; None for the public."""
    return cast("Principal | None", request.state.principal)


CurrentUser = Annotated[Principal, Depends(get_current_user)]
Reader = Annotated[Principal | None, Depends(get_reader)]


def whole(dependant: Dependant) -> Iterator[Dependant]:
    """Yield what a route depends on, itself first, at every depth."""
    yield dependant
    for one in dependant.dependencies:
        yield from whole(one)


def _credential(request: Request) -> str | None:
    given = request.headers.get("authorization")
    if given is None:
        return None
    if not given.lower().startswith(_BEARER):
        raise UnauthenticatedError("expected a bearer credential, got another kind")
    return given[len(_BEARER) :].strip()


def _keep_private(response: Response) -> None:
    response.headers.setdefault("Cache-Control", "private, no-store")
    response.headers.setdefault("Vary", "Authorization")
