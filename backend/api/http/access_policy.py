"""Access policy: each route declares who may use it, and the policy is enforced before its code.

An endpoint declares its policy by a decorator, below that of its route; a route without one cannot
be made. Before a route's own code runs, unknown query parameters are refused, and the credential is
checked as the policy requires; `CurrentUser` is the principal.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar, cast, get_origin
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope as HttpScope

from backend.api.http.conditional import OPEN_TO_PAGES
from backend.api.http.idempotency import ReplayedResponse, store_response
from backend.api.http.problem_types import BY_SLUG
from backend.api.http.rate_limits import Rate
from backend.api.http.service import get_service
from backend.auth.credentials import Principal, Scope
from backend.errors import (
    RequestInvalidError,
    RequestRefusedError,
    RequestViolation,
    UnauthenticatedError,
)
from backend.services.accounts import authenticate

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_BEARER = "bearer "
# It keeps FastAPI's own kind of refusal out of the description; `interface` puts the real ones in.
_REFUSALS: dict[int | str, dict[str, Any]] = {"default": {"description": "a problem"}}
_FIRST_REFUSAL = 400
_READING = frozenset({"GET", "HEAD"})


class Access(StrEnum):
    """Whom a route serves."""

    PUBLIC = "public"
    """Everyone: nothing in the answer belongs to a user."""
    USER = "user"
    """Any user, with their own things only."""
    OWNER = "owner"
    """The owner of what the path names; others get 404."""
    DISCLOSED = "disclosed"
    """The owner, and everyone once it is public."""
    VISITOR = "visitor"
    """A person in a browser, signed in or not; what is shown follows the rules above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Whom a route serves, what a key needs for it, and whether `Idempotency-Key` is kept.

    `refuses`: the kinds of problems, by slug, that do not follow from the rest
    (`possible_problems`).
    """

    access: Access
    scope: Scope | None = None
    idempotent: bool = True
    rate: Rate = Rate.READ
    refuses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise TypeError for an unknown kind of problem."""
        unknown = set(self.refuses) - set(BY_SLUG)
        if unknown:
            raise TypeError(f"expected kinds of problems, got {sorted(unknown)}")

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        """Declare this of an endpoint."""
        _POLICIES[endpoint] = self
        return endpoint


_POLICIES: WeakKeyDictionary[Callable[..., Any], AccessPolicy] = WeakKeyDictionary()


def public(*refuses: str, idempotent: bool = True, rate: Rate = Rate.READ) -> AccessPolicy:
    """Declare a route for everyone."""
    return AccessPolicy(access=Access.PUBLIC, idempotent=idempotent, rate=rate, refuses=refuses)


def for_users(
    scope: Scope, *refuses: str, idempotent: bool = True, rate: Rate = Rate.READ
) -> AccessPolicy:
    """Declare a route for any user."""
    return AccessPolicy(
        access=Access.USER, scope=scope, idempotent=idempotent, rate=rate, refuses=refuses
    )


def for_owner(scope: Scope, *refuses: str) -> AccessPolicy:
    """Declare a route for the owner of what its path names."""
    return AccessPolicy(access=Access.OWNER, scope=scope, refuses=refuses)


def disclosed(scope: Scope, *refuses: str) -> AccessPolicy:
    """Declare a route for the owner, and for everyone once its content is public."""
    return AccessPolicy(access=Access.DISCLOSED, scope=scope, refuses=refuses)


def for_visitors(scope: Scope, *refuses: str, rate: Rate = Rate.READ) -> AccessPolicy:
    """Declare a page that a person may be signed in to; `scope` is what a session needs for it."""
    return AccessPolicy(
        access=Access.VISITOR, scope=scope, idempotent=False, rate=rate, refuses=refuses
    )


def sharing_headers(scope: HttpScope) -> dict[str, str]:
    """Return what an answer says of who may read it, problems included.

    Any web page may read public answers, without credentials; other answers are for no other page.
    """
    declared: AccessPolicy | None = scope["state"].get("declared")
    if declared is None:
        return {}
    asked_with = "Cookie" if declared.access is Access.VISITOR else "Authorization"
    headers = {} if declared.access is Access.PUBLIC else {"Vary": asked_with}
    is_open = declared.access in {Access.PUBLIC, Access.DISCLOSED}
    if is_open and scope["method"] in _READING and scope["state"].get("principal") is None:
        headers |= OPEN_TO_PAGES
    return headers


class _Name(StringConvertor):
    """The name of a construct or an episode in a path: `HumanEval/0`, as people call theirs.

    `%2F` is a slash by the time that a path is matched, so a name takes all that no route has.
    """

    regex = r"[\s\S]+"


register_url_convertor("name", _Name())


class DeclaredRoute(APIRoute):
    """A route with the policy of its endpoint, after which its operation is named."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401 - FastAPI's own
        if endpoint not in _POLICIES:
            raise TypeError(f"expected {endpoint.__name__} to declare whom it serves, got nothing")
        self.declared = _POLICIES[endpoint]
        named = options.pop("operation_id", None) or endpoint.__name__
        super().__init__(path, endpoint, operation_id=named, **options)
        fields = [field for one in walk_dependencies(self.dependant) for field in one.query_params]
        self._query = frozenset(field.alias for field in fields)
        self._lists = frozenset(
            field.alias for field in fields if get_origin(field.field_info.annotation) is list
        )

    def matches(self, scope: HttpScope) -> tuple[Match, HttpScope]:
        """Match a path; what follows a name is no part of it: `maker%2Frouting` is one name."""
        end = self.path.partition(":name}")[2]
        if not scope["raw_path"].endswith(end.encode()):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def admitted(request: Request) -> Response:
            request.state.declared = self.declared
            rates = get_service(request).rates
            rates.admit_address(self.declared.rate, request.client.host if request.client else "")
            self._refuse_other_parameters(request)
            request.state.principal = principal = await self.admit(request)
            if principal is not None and request.method not in _READING:
                rates.admit_write(principal.user_id)
            try:
                response = await answer(request)
            except ReplayedResponse as replayed:
                response = replayed.response
            else:
                if response.status_code >= _FIRST_REFUSAL:
                    raise TypeError("expected a refusal to be raised, got one returned")
                await store_response(request, response)
            if self.declared.access is not Access.PUBLIC:
                response.headers.setdefault("Cache-Control", "private, no-store")
            return response

        return admitted

    def _refuse_other_parameters(self, request: Request) -> None:
        seen = [name for name, _ in request.query_params.multi_items()]
        expected = f"only {', '.join(sorted(self._query))}" if self._query else "no parameters"
        wrong = [
            RequestViolation("query", "unknown-parameter", f"expected {expected}")
            for name in seen
            if name not in self._query
        ]
        once = [name for name in seen if name not in self._lists]
        if not wrong and len(set(once)) != len(once):
            wrong = [RequestViolation("query", "repeated-parameter", "expected each once")]
        if wrong:
            raise RequestInvalidError(wrong[:1])

    async def admit(self, request: Request) -> Principal | None:
        """Return who asks, None for the public; UnauthenticatedError, RequestRefusedError."""
        if self.declared.access is Access.PUBLIC:
            return None
        credential = _credential(request)
        if credential is None:
            if self.declared.access is Access.DISCLOSED:
                return None
            raise UnauthenticatedError("expected a bearer credential, got none")
        service = get_service(request)
        principal = await authenticate(
            service.engine, service.tokens, credential, clock=service.clock
        )
        if self.declared.scope is not None and self.declared.scope not in principal.scopes:
            raise RequestRefusedError(
                "out-of-scope", f"expected a key with the scope {self.declared.scope}"
            )
        return principal


def resource_router(tag: str) -> APIRouter:
    """Return a router whose routes keep to what their endpoints declare."""
    return APIRouter(tags=[tag], route_class=DeclaredRoute, responses=_REFUSALS)


# Not plain functions: FastAPI would run those in a thread each.
async def get_current_user(request: Request) -> Principal:
    """Return the principal; only routes for users and owners may depend on it."""
    principal = cast("Principal | None", request.state.principal)
    if principal is None:
        raise TypeError("expected a route that is declared for users, got another")
    return principal


async def get_reader(request: Request) -> Principal | None:
    """Return the principal on a disclosed route or a page; None for the public."""
    return cast("Principal | None", request.state.principal)


CurrentUser = Annotated[Principal, Depends(get_current_user)]
Reader = Annotated[Principal | None, Depends(get_reader)]


def walk_dependencies(dependant: Dependant) -> Iterator[Dependant]:
    """Yield what a route depends on, itself first, at every depth."""
    yield dependant
    for one in dependant.dependencies:
        yield from walk_dependencies(one)


def _credential(request: Request) -> str | None:
    given = request.headers.get("authorization")
    if given is None:
        return None
    if not given.lower().startswith(_BEARER):
        raise UnauthenticatedError("expected a bearer credential, got another kind")
    return given[len(_BEARER) :].strip()
