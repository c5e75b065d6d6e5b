"""Which problems a route may answer: what its declaration lists, and what follows from its kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from backend.api.bodies import JSON
from backend.api.declared_routes import Access, DeclaredRoute, walk_dependencies
from backend.api.error_kinds import BY_SLUG
from backend.api.problem_kinds import ProblemKind
from backend.api.rate_limits import Rate
from backend.api.transactions import get_reading, get_transaction


def list_problems(route: DeclaredRoute) -> dict[int, list[ProblemKind]]:
    """Return the kinds of problems that a route may answer, by status, both in order."""
    by_status: dict[int, list[ProblemKind]] = defaultdict(list)
    for slug in sorted({*route.declared.refuses, *_implied_slugs(route)}):
        kind = BY_SLUG[slug]
        by_status[kind.status].append(kind)
    return dict(sorted(by_status.items()))


def keeps_answers(route: DeclaredRoute) -> bool:
    """Tell whether a route keeps its answers under `Idempotency-Key`."""
    declared = route.declared
    is_post = "POST" in (route.methods or ())
    return is_post and declared.idempotent and declared.access is not Access.PUBLIC


def _implied_slugs(route: DeclaredRoute) -> Iterator[str]:
    # Unknown query parameters are refused everywhere.
    yield from ("validation-error", "internal-error")
    if route.declared.rate is not Rate.UNLIMITED:
        yield "rate-limited"
    is_public = route.declared.access is Access.PUBLIC
    calls = {one.call for one in walk_dependencies(route.dependant)}
    if calls & {get_reading, get_transaction} or not is_public:
        yield "not-ready"
    if not is_public:
        yield from ("unauthenticated", "out-of-scope")
    if keeps_answers(route):
        yield from ("idempotency-in-progress", "idempotency-mismatch")
    body = (route.openapi_extra or {}).get("requestBody")
    if body is not None:
        yield "unsupported-media-type"
    if body is not None or keeps_answers(route):
        yield from ("request-timeout", "content-too-large")
    if body is not None and JSON in body["content"]:
        yield "malformed-json"
