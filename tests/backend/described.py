"""Holds every refusal that any test meets to the description: it has to be listed there."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
_PREFIX = re.compile(r"^/api(/v1(?=/)|(?=/verification/))")
_NOT_OF_A_ROUTE = {405, 500}
"""What the router and the last refuge answer, whatever the route."""


def assert_described(method: str, path: str, *, status: int, slug: str) -> None:
    """Fail for a kind of problem that the operation at `path` does not list."""
    # Decoded before it is routed, as the server does it: what was one segment may be several.
    bare = _PREFIX.sub("", unquote(path.partition("?")[0]))
    for pattern, operations in _operations():
        if method.lower() in operations and pattern.fullmatch(bare):
            listed = _listed(operations[method.lower()], status)
            assert status in _NOT_OF_A_ROUTE or slug in listed, (
                f"{method} {path} answers {status} {slug}, which docs/openapi.json does not list: "
                "declare it beside the router, then `echelon openapi > docs/openapi.json`"
            )
            return


@cache
def _description() -> dict[str, Any]:
    return dict(json.loads(_COMMITTED.read_bytes()))


@cache
def _operations() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    return [
        (_pattern(_PREFIX.sub("", path)), operations)
        for path, operations in _description()["paths"].items()
    ]


def _pattern(path: str) -> re.Pattern[str]:
    within = {"{path}": ".+"}
    parts = re.split(r"(\{\w+\})", path)
    return re.compile("".join(within.get(p, "[^/]+") if p[:1] == "{" else p for p in parts))


def _listed(operation: dict[str, Any], status: int) -> set[str]:
    reference = operation["responses"].get(str(status), {}).get("$ref", "")
    return set(reference.rpartition("/")[2].split(".")[1:])
