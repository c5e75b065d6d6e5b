"""Errors as problem documents (RFC 9457), from every source."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from backend.api.http.html import accept_of, html_response, prefers_html
from backend.api.http.problem_types import (
    BY_STATUS,
    DUPLICATE_SUBMISSION,
    IDENTITY_SEPARATION,
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_READY,
    ProblemKind,
    kind_of,
)
from backend.errors import BackendError, RateLimitedError, RequestViolation
from backend.schemas.base import MAX_DETAIL, MAX_VIOLATIONS
from theatre.engine.errors import HumanScoreRefusedError, ParseError, TheatreError
from theatre.engine.schema_registry import Message, model_message, without_values
from theatre.pages.rendering import render_page

# Which methods a path has: RFC 9110 wants all of them in `Allow`.


def allowed_methods(request: Request) -> list[str]:
    """Return the methods of a request's path, sorted; none for a path without a route."""
    path = request.url.path
    methods = {
        method
        for route in iter_route_contexts(request.app.routes)
        if route.path is not None and _pattern(route.path).match(path)
        for method in route.methods or ()
    }
    if methods:
        methods |= {"OPTIONS", "HEAD"} if "GET" in methods else {"OPTIONS"}
    return sorted(methods)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]


MEDIA_TYPE = "application/problem+json"
_MAX_POINTER = _MAX_CAUSE = 300
_WITH_LITERALS = {
    "duplicate-key": "expected unique keys, got one twice",
    "unsafe-integer": "expected integers within ±(2^53-1), got one beyond",
    "non-finite": "expected finite numbers, got another",
    "number-overflow": "expected numbers that a double holds, got one beyond",
}
"""Reasons of the strict parser whose messages quote the document."""

_REFUSED_SCORES = {
    "scorer-is-author": IDENTITY_SEPARATION,
    "item-already-scored": DUPLICATE_SUBMISSION,
}
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    # The rest of the body is not read: the connection cannot be used again.
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    503: {"Retry-After": "1"},
}
# PostgreSQL: connections (08), log-in (28), no such database (3D), resources (53), the operator's
# or an own limit (57), a database that takes no connections.
_UNAVAILABLE = re.compile(r"(08|28|3D|53|57)[0-9A-Z]{3}|55000")

_NOT_A_CHARACTER = "22021"
_NO_NUL = "expected texts without the character U+0000, got one with it"


def problem_response(
    request: Request,
    kind: ProblemKind,
    *,
    detail: str | None = None,
    violations: Iterable[RequestViolation] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the document of a problem, or its page, with the headers of its status."""
    listed = [
        {"pointer": one.pointer[:_MAX_POINTER], "rule": one.rule, "detail": one.detail[:MAX_DETAIL]}
        for one in violations
    ]
    own_headers = {"Cache-Control": "no-store", **_HEADERS.get(kind.status, {}), **(headers or {})}
    if _asks_for_page(request):
        page = render_page(
            "problem.html",
            {"title": kind.title, "detail": detail or kind.explanation, "errors": listed},
        )
        return html_response(
            request, page, status=kind.status, caching="no-store", headers=own_headers
        )
    document = {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": (detail or kind.explanation)[:MAX_DETAIL],
        "instance": f"urn:request:{request.state.request_id}",
        "errors": listed[:MAX_VIOLATIONS],
    }
    return JSONResponse(document, kind.status, headers=own_headers, media_type=MEDIA_TYPE)


def _asks_for_page(request: Request) -> bool:
    """Tell whether a page was asked for, or with a browser what there is not."""
    state = request.scope["state"]
    is_unknown = "declared" not in state and not allowed_methods(request)
    return bool(state.get("page")) or (is_unknown and prefers_html(accept_of(request.scope)))


def install_problem_handlers(app: FastAPI) -> None:
    """Make an application answer every error with a problem document."""
    app.add_exception_handler(TheatreError, _answer_known)
    app.add_exception_handler(BackendError, _answer_known)
    app.add_exception_handler(HTTPException, _answer_framework_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    for unavailable in (PoolTimeoutError, ConnectionError):
        app.add_exception_handler(unavailable, _answer_unavailable)
    app.add_exception_handler(DBAPIError, _answer_database_error)


def violations_of(error: ValidationError | RequestValidationError) -> list[RequestViolation]:
    """Return what pydantic found, without what it found it in."""
    if isinstance(error, ValidationError):
        found: Sequence[ErrorDetails] = error.errors(include_input=False, include_url=False)
        return [_violation(("body", *one["loc"]), one) for one in found]
    return [_violation(one["loc"], one) for one in error.errors()]


def _violation(loc: tuple[int | str, ...], one: ErrorDetails) -> RequestViolation:
    where, *path = loc
    if where == "body":
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    else:
        pointer = ":".join(map(str, loc))
    return RequestViolation(pointer, one["type"], model_message(one))


def _message(error: Exception) -> str:
    first = error.args[0] if error.args else None
    return first.discreet if isinstance(first, Message) else str(error)


async def _answer_known(request: Request, error: Exception) -> Response:
    kind = kind_of(error)
    # Never with the value (docs/adr/0080).
    violations: Iterable[RequestViolation] = [
        RequestViolation(one.pointer, one.rule, without_values(one.detail))
        for one in getattr(error, "violations", ())
    ]
    detail = _message(error) if kind.shows_message else None
    headers = {}
    if isinstance(error, ParseError):
        detail = _WITH_LITERALS.get(error.reason, detail)
        violations = (RequestViolation("", error.reason, detail or ""),)
    elif isinstance(error, HumanScoreRefusedError):
        violations = tuple(
            RequestViolation("", code, without_values(message)) for code, message in error.refusals
        )
        detail = "\n".join(f"{one.rule}: {one.detail}" for one in violations)
        codes = {code for code, _ in error.refusals}
        kind = next((_REFUSED_SCORES[one] for one in _REFUSED_SCORES if one in codes), kind)
    if kind.slug.endswith("in-progress"):
        headers["Retry-After"] = "1"
    elif isinstance(error, RateLimitedError):
        headers["Retry-After"] = str(error.retry_after)
    if kind is INTERNAL:
        # Raised on to the outermost middleware, which logs it with its traceback.
        raise error
    return problem_response(request, kind, detail=detail, violations=violations, headers=headers)


async def _answer_framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    kind = BY_STATUS.get(error.status_code, INTERNAL)
    headers = dict(error.headers or {})
    if kind is METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(allowed_methods(request))
    return problem_response(request, kind, headers=headers)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    found = violations_of(error)
    # Who opens an address wants to hear that nothing is there, not what an identifier looks like.
    if _asks_for_page(request) and all(one.pointer.startswith("path:") for one in found):
        return problem_response(request, NOT_FOUND)
    return problem_response(request, BY_STATUS[422], violations=found)


async def _answer_unavailable(request: Request, error: BaseException) -> Response:
    # The answer does not say it: the line in the log is all that the operator has of it.
    request.state.cause = f"{type(error).__name__}: {error}"[:_MAX_CAUSE]
    return problem_response(request, NOT_READY)


async def _answer_database_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DBAPIError)  # noqa: S101 - what it is registered for
    state = getattr(error.orig, "sqlstate", None)
    if state == _NOT_A_CHARACTER:
        return problem_response(request, BY_STATUS[422], detail=_NO_NUL)
    if error.connection_invalidated or _UNAVAILABLE.fullmatch(state or "08000"):
        return await _answer_unavailable(request, error.orig or error)
    raise error
