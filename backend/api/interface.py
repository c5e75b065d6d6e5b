"""The description of the interface (OpenAPI): problems, credentials and examples as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from backend.api.declared_routes import Access, DeclaredRoute
from backend.api.examples import add_examples
from backend.api.idempotency import HEADER
from backend.api.possible_problems import keeps_answers, list_problems
from backend.api.problem_kinds import ProblemKind
from backend.api.problems import MEDIA_TYPE
from backend.schemas.problems import ProblemDocument

_PROBLEM = "#/components/schemas/ProblemDocument"
_REFERENCES = "#/components/schemas/{model}"
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "a token of `POST /auth/token`, or a key of `POST /keys`",
}
_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "one effect and one answer, however often the request is sent; for 48 hours",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-\\[\\]-~]+$"},
}


class DescribedApi(FastAPI):
    """An application that describes what its routes declare."""

    def openapi(self) -> dict[str, Any]:
        """Return the description; it is built once."""
        if self.openapi_schema is None:
            described = super().openapi()
            components = described.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            schema = ProblemDocument.model_json_schema(ref_template=_REFERENCES)
            schemas.update(schema.pop("$defs"))
            schemas["ProblemDocument"] = schema
            components["securitySchemes"] = {"bearer": _BEARER}
            components["responses"] = {}
            for operation, route in self._operations(described):
                _describe(operation, route, components["responses"])
        return super().openapi()

    def _operations(
        self, described: dict[str, Any]
    ) -> Iterable[tuple[dict[str, Any], DeclaredRoute]]:
        for context in iter_route_contexts(self.routes):
            route, path = context.original_route, str(context.path).replace(":path}", "}")
            if isinstance(route, DeclaredRoute) and path in described["paths"]:
                for method in context.methods or ():
                    yield described["paths"][path][method.lower()], route


def format_openapi(described: dict[str, Any]) -> str:
    """Return a description as `docs/openapi.json` has it: the same text for the same interface."""
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _describe(operation: dict[str, Any], route: DeclaredRoute, shared: dict[str, Any]) -> None:
    declared = route.declared
    if declared.access is Access.DISCLOSED:
        operation["security"] = [{"bearer": []}, {}]
    elif declared.access is not Access.PUBLIC:
        operation["security"] = [{"bearer": []}]
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        _remove_null(parameter)
    if keeps_answers(route):
        parameters.append(_KEY)
    operation["responses"].pop("default")
    for status, kinds in list_problems(route).items():
        name = ".".join((str(status), *(kind.slug for kind in kinds)))
        shared[name] = _refusal(status, kinds)
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/{name}"}
    add_examples(operation)


def _refusal(status: int, kinds: list[ProblemKind]) -> dict[str, Any]:
    types = [f"/problems/{kind.slug}" for kind in kinds]
    members = {"type": {"enum": types}, "status": {"const": status}}
    return {
        "description": "; ".join(f"`{kind.slug}`: {kind.title}" for kind in kinds),
        "content": {
            MEDIA_TYPE: {
                "schema": {"allOf": [{"$ref": _PROBLEM}, {"properties": members}]},
                "examples": {kind.slug: {"value": _example(kind)} for kind in kinds},
            }
        },
    }


def _example(kind: ProblemKind) -> dict[str, Any]:
    return {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.explanation,
        "instance": "urn:request:0197a6b0-0000-4000-8000-000000000000",
        "errors": [],
    }


def _remove_null(parameter: dict[str, Any]) -> None:
    """Describe an optional parameter without null: no text of it means null."""
    schema = parameter["schema"]
    given = [one for one in schema.pop("anyOf", []) if one != {"type": "null"}]
    if len(given) == 1:
        schema.update(given[0])
    schema.pop("title", None)
