"""Pages for people: routes that answer in HTML, sessions in a cookie, and forms.

A session is an access token in a cookie that only the pages of theatres get, and may less than the
token itself: read, and score. The interface for programs knows no cookies. A form is accepted from
the page that showed it alone (docs/design/pages.md).
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope as HttpScope

from backend.api.http.access_policy import Access, DeclaredRoute
from backend.api.http.bodies import read_form_fields
from backend.api.http.html import accept_of, prefers_html
from backend.api.http.service import get_service
from backend.auth.credentials import Principal, Scope, is_api_key
from backend.auth.tokens import LIFETIME
from backend.errors import RequestRefusedError, UnauthenticatedError
from backend.services.accounts import authenticate

SESSION = "echelon_session"
SIGN_IN = "echelon_sign_in"
"""Of somebody who is not signed in: what the token of the sign-in form belongs to."""
FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
MAX_FORM_FIELDS = 1000
_COOKIE_PATH = "/theatres"
_SESSION_SCOPES = frozenset({Scope.READ, Scope.SCORE})
_SIGN_IN_VALUE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_READING = frozenset({"GET", "HEAD"})


class RefusedForm(Exception):  # noqa: N818 - no error: the form again, with what is wrong
    """A form was not taken: this page has it again, and nothing of it had an effect."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class PageRoute(DeclaredRoute):
    """A route whose answers are pages, its refusals included."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def shown(request: Request) -> Response:
            request.state.page = True
            try:
                return await answer(request)
            except RefusedForm as refused:
                return refused.response

        return shown

    async def admit(self, request: Request) -> Principal | None:
        """Return who is signed in; RequestRefusedError for a form from elsewhere."""
        if request.method not in _READING:
            _require_own_page(request)
        if self.declared.access is not Access.VISITOR:
            return None
        principal = await _read_session(request)
        needed = self.declared.scope
        return principal if principal is not None and needed in principal.scopes else None


class SharedPageRoute(PageRoute):
    """A page at a path that programs read, too: it is for those who prefer HTML."""

    def matches(self, scope: HttpScope) -> tuple[Match, HttpScope]:
        """Return whether this route answers; the answer varies with `Accept` either way."""
        match, child = super().matches(scope)
        if match is not Match.FULL:
            return Match.NONE, {}
        scope["state"]["negotiated"] = True
        return (match, child) if prefers_html(accept_of(scope)) else (Match.NONE, {})


def page_router(*, shared: bool = False) -> APIRouter:
    """Return a router of pages; `shared` where programs are answered at the same paths."""
    return APIRouter(route_class=SharedPageRoute if shared else PageRoute)


# Sessions.


def keep_session(response: Response, token: str) -> None:
    """Give the browser an access token as its session."""
    _set_cookie(response, SESSION, token, int(LIFETIME.total_seconds()))


def end_session(response: Response) -> None:
    """Have the browser forget its session."""
    _set_cookie(response, SESSION, "", 0)


def _set_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=_COOKIE_PATH,
        secure=True,
        httponly=True,
        samesite="strict",
    )


async def _read_session(request: Request) -> Principal | None:
    """Return who a session is of, with what a session may; None without a good one."""
    token = request.cookies.get(SESSION, "")
    if not token or is_api_key(token):
        return None
    service = get_service(request)
    try:
        who = await authenticate(service.engine, service.tokens, token, clock=service.clock)
    except UnauthenticatedError:
        return None
    return Principal(
        user_id=who.user_id, username=who.username, scopes=who.scopes & _SESSION_SCOPES
    )


# Forms: from a page of this origin (`Origin`, `Sec-Fetch-Site`), and from this browser (a token).


def _require_own_page(request: Request) -> None:
    """Raise RequestRefusedError for a form of another origin, or of no page at all.

    Pages send no referrer, so a browser's `Origin` may be `null`; `Sec-Fetch-Site`, which no page
    can set, then decides.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin", "null")
    is_own = origin != "null" and urlsplit(origin).netloc == request.headers.get("host")
    is_same_site = site == "same-origin" and (is_own or origin == "null")
    if not (is_same_site if site is not None else is_own):
        raise RequestRefusedError(
            "form-refused", "expected a form of this service's own page, got one from elsewhere"
        )


def form_token(key: str, path: str) -> str:
    """Return the token of the form that is sent to `path`, for the browser with this cookie."""
    return hmac.new(key.encode(), f"form:{path}".encode(), hashlib.sha256).hexdigest()


def session_form_token(request: Request, path: str) -> str:
    """Return the token of a form for who is signed in."""
    return form_token(request.cookies[SESSION], path)


def sign_in_cookie(request: Request) -> str:
    """Return what the browser has for the sign-in form, or a new value."""
    kept = request.cookies.get(SIGN_IN, "")
    return kept if _SIGN_IN_VALUE.fullmatch(kept) else secrets.token_urlsafe(32)


def keep_sign_in(response: Response, value: str) -> None:
    """Give the browser what its sign-in form belongs to."""
    _set_cookie(response, SIGN_IN, value, int(LIFETIME.total_seconds()))


def verified_form(cookie: str) -> Callable[[Request], Awaitable[Mapping[str, str]]]:
    """Return a dependency that reads a form whose token belongs to `cookie` and this path.

    Raises RequestRefusedError for any other, and as `read_form_fields`.
    """

    async def read(request: Request) -> Mapping[str, str]:
        fields = await read_form_fields(request, at_most=MAX_FORM_FIELDS)
        expected = form_token(request.cookies.get(cookie, ""), request.url.path)
        given = fields.pop(FORM_TOKEN, "")
        if not request.cookies.get(cookie) or not hmac.compare_digest(
            given.encode(), expected.encode()
        ):
            raise RequestRefusedError(
                "form-refused", "expected the form of a page in this browser, got another"
            )
        return fields

    read.__name__ = READ_FORM
    return read


READ_FORM = "read_verified_form"
"""The name by which tests know that a route reads a verified form."""
