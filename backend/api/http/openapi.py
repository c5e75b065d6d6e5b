"""The description of the interface (OpenAPI): problems, credentials and examples as they are."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from backend.api.http.access_policy import Access, DeclaredRoute, walk_dependencies
from backend.api.http.bodies import JSON
from backend.api.http.idempotency import HEADER, get_reading, get_transaction
from backend.api.http.problem_types import BY_SLUG, ProblemKind
from backend.api.http.problems import MEDIA_TYPE
from backend.api.http.rate_limits import Rate
from backend.api.http.visitors import PageRoute
from backend.schemas.base import ProblemDocument
from theatre.transparency.statements import BUNDLE_TYPE

# Answers as routes describe them: headers, bytes, and where a theatre goes on.


Described = dict[int | str, dict[str, Any]]


_TEXT = {"schema": {"type": "string"}}
_BYTES = {"type": "string", "format": "binary"}
_BODIES: dict[str, dict[str, str]] = {
    name: {"type": "object"} for name in ("application/json", BUNDLE_TYPE)
}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "required": True} | _TEXT


ETAG = {"ETag": _header("names this version of the answer, for `If-None-Match`")}
DIGEST = {"Repr-Digest": _header("SHA-256 of the whole body (RFC 9530)")}
DESCRIBED_BY = {"Link": _header('`rel="describedby"`: the certificate with its tier of now')}
CACHING = {"Cache-Control": _header("how long it may be kept")}
LOCATION = {"Location": _header("the theatre")}
DEBATE_LOCATION = {"Location": _header("the run of the debate")}
JOB_LOCATION = {"Location": _header("how far the job is")}
NOT_MODIFIED: Described = {
    304: {"description": "`If-None-Match` names this answer", "headers": ETAG}
}


def _parameter(name: str, description: str) -> dict[str, Any]:
    return {"in": "header", "name": name, "required": False, "description": description} | _TEXT


IF_NONE_MATCH = _parameter("If-None-Match", "entity tags that the reader has already")
RANGE = _parameter("Range", "one range of bytes; anything else is answered whole")
PREFER = _parameter(
    "Prefer", "`wait=N`: have the answer wait for the end, at most 60 seconds (RFC 7240)"
)


def describe_headers(*parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads these headers."""
    return {"parameters": list(parameters)}


# What these return are the arguments `responses` and `openapi_extra` of a route that answers 304.


def _conditional(answers: Described, *parameters: dict[str, Any]) -> dict[str, Any]:
    read = describe_headers(IF_NONE_MATCH, *parameters)
    return {"responses": {**answers, **NOT_MODIFIED}, "openapi_extra": read}


def describe_tagged(*, links: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe a document with an entity tag."""
    described: dict[str, Any] = {"headers": {**ETAG, **CACHING}}
    return _conditional({200: {**described, "links": links} if links else described})


def describe_immutable(model: object, description: str, **more: dict[str, Any]) -> dict[str, Any]:
    """Describe a document whose bytes never change; `more` are further headers."""
    headers = {**ETAG, **DIGEST, **CACHING, **more}
    return _conditional({200: {"model": model, "description": description, "headers": headers}})


def describe_download(*media_types: str, description: str) -> dict[str, Any]:
    """Describe a file, whole or one range of it."""
    content = {name: {"schema": _BODIES.get(name, _BYTES)} for name in media_types}
    headers = {**ETAG, **DIGEST, **CACHING, **DESCRIBED_BY}
    part = {"Content-Range": _header("which bytes of how many")}
    whole = {"description": description, "headers": headers, "content": content}
    ranged = {
        "description": "The range that was asked",
        "headers": {**headers, **part},
        "content": {name: {"schema": _BYTES} for name in media_types},
    }
    return _conditional({200: whole, 206: ranged}, RANGE)


def describe_bytes(media_type: str, *, description: str, **more: dict[str, Any]) -> dict[str, Any]:
    """Describe bytes, or a text, that are always sent whole; `more` are further headers."""
    headers = {**ETAG, **DIGEST, **CACHING, **more}
    is_text = media_type.startswith("text/")
    content = {media_type: _TEXT if is_text else {"schema": _BODIES.get(media_type, _BYTES)}}
    return _conditional({200: {"description": description, "headers": headers, "content": content}})


def describe_links(*operations: str, named: str = "theatre_id") -> dict[str, Any]:
    """Return the links from a theatre, or what else is `named`, to what can be done with it."""
    return {
        operation: {"operationId": operation, "parameters": {named: "$response.body#/id"}}
        for operation in operations
    }


# Examples of the description: requests that were sent to a service, and what it answered.
#
# `examples.json` is recorded by a test (docs/design/service.md, "Examples of the interface are
# recorded") and holds, by operation id, a request's body and the answer's by status and media
# type.


RECORDED = Path(__file__).with_name("examples.json")
BARE = "application/vnd.theatre.template+json"


@cache
def read_examples() -> dict[str, dict[str, Any]]:
    """Return what was recorded, by operation id."""
    return cast("dict[str, dict[str, Any]]", json.loads(RECORDED.read_bytes()))


def add_examples(operation: dict[str, Any]) -> None:
    """Put the recorded bodies into the description of an operation."""
    kept = read_examples().get(operation["operationId"], {"responses": {}})
    body = kept.get("request")
    if body is not None:
        for media_type, described in operation["requestBody"]["content"].items():
            described["example"] = body["template_json"] if media_type == BARE else body
    for status, answers in kept["responses"].items():
        for media_type, answer in answers.items():
            operation["responses"][status]["content"][media_type]["example"] = answer


# Which problems a route may answer: what its declaration lists, and what follows from its kind.


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
            route, path = context.original_route, compile_path(str(context.path))[1]
            # A page may have the path of an operation: it is no part of the description.
            is_page = isinstance(route, PageRoute)
            if isinstance(route, DeclaredRoute) and path in described["paths"] and not is_page:
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
