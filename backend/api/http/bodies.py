"""Bodies: read whole as bytes, parsed strictly, and only then given a shape.

FastAPI's own parsing would accept duplicate keys and NaN in silence.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError

from backend.api.http.problems import violations_of
from backend.errors import RequestInvalidError, RequestRefusedError, RequestViolation
from theatre.engine.canonical_json import MAX_DEPTH, JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MAX_MEMBERS = 50_000
_MAX_FIELDS = 20

Document = TypeVar("Document", bound=BaseModel)


def json_body(model: type[Document]) -> Callable[[Request], Awaitable[Document]]:
    """Return a dependency that reads a JSON object as `model`.

    Raises RequestRefusedError for another media type, ParseError, and RequestInvalidError with
    every violation.
    """

    async def read(request: Request) -> Document:
        require_media_type(request, JSON)
        body = await request.body()
        strict_object(body)
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            raise RequestInvalidError(violations_of(error)) from None

    return read


def strict_object(
    body: bytes, *, max_depth: int = MAX_DEPTH, max_members: int = MAX_MEMBERS
) -> JsonObject:
    """Return the JSON object that a body is; ParseError for anything else.

    Also for one of more than `max_members` members and items: later checks look at each of them,
    and must not cost many times as much as the request did.
    """
    document = parse_object(body, max_bytes=max(len(body), 1), max_depth=max_depth)
    counted = 0
    containers: list[JsonObject | list[JsonValue]] = [document]
    while containers:
        one = containers.pop()
        counted += len(one)
        inside = one.values() if isinstance(one, dict) else one
        containers.extend(item for item in inside if isinstance(item, dict | list))
    if counted > max_members:
        raise ParseError(
            f"expected at most {max_members} members and items, got {counted}",
            reason="too-many-members",
        )
    return document


def form_body(model: type[Document]) -> Callable[[Request], Awaitable[Document]]:
    """Return a dependency that reads a form without files as `model`, whose fields are texts."""

    async def read(request: Request) -> Document:
        fields = await read_form_fields(request)
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            raise RequestInvalidError(violations_of(error)) from None

    return read


async def read_form_fields(request: Request, *, at_most: int = _MAX_FIELDS) -> dict[str, str]:
    """Return the fields of a form without files; raises as `form_body`."""
    require_media_type(request, FORM)
    pairs = _pairs(await request.body(), at_most)
    if len({name for name, _ in pairs}) != len(pairs):
        raise RequestInvalidError([RequestViolation("", "repeated-field", "expected each once")])
    return dict(pairs)


def describe_body(model: type[BaseModel], media_type: str = JSON) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads `model`."""
    schema = model.model_json_schema()
    whole = _inline_references(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {media_type: {"schema": whole}}}}


def require_media_type(request: Request, *accepted: str) -> str:
    """Return the media type of a body; RequestRefusedError unless it is one of `accepted`."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in accepted:
        raise RequestRefusedError(
            "unsupported-media-type",
            f"expected Content-Type {' or '.join(accepted)}, got another or none",
        )
    return given


def _inline_references(schema: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(schema, list):
        return [_inline_references(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline_references(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline_references(one, definitions) for name, one in schema.items()}


def _pairs(body: bytes, at_most: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=at_most,
        )
    except ValueError:
        raise RequestInvalidError(
            [RequestViolation("", "form", f"expected a form of at most {at_most} fields")]
        ) from None
