"""Which methods a path has: RFC 9110 wants all of them in `Allow`."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path


def allowed_methods(request: Request) -> list[str]:
    """Return the methods of every route that the path of a request fits, sorted."""
    path = request.url.path
    return sorted(
        {
            method
            for route in iter_route_contexts(request.app.routes)
            if route.path is not None and compile_path(route.path)[0].match(path)
            for method in route.methods or ()
        }
    )
