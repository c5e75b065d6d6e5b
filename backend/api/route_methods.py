"""Which methods a path has: RFC 9110 wants all of them in `Allow`."""

from __future__ import annotations

import re
from functools import cache

from fastapi import Request
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path


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
