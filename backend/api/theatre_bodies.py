"""Bodies of the theatre routes: a template as raw bytes, and bodies that may be left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import ValidationError

from backend.api.bodies import (
    JSON,
    Document,
    describe_body,
    json_body,
    require_media_type,
    strict_object,
)
from backend.api.examples import BARE
from backend.api.problems import violations_of
from backend.api.service import get_service
from backend.errors import RequestInvalidError
from backend.schemas.theatres import TheatreRequest
from backend.services.theatres import find_endpoints
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject

MAX_MEMBERS = 10_000
"""Of a template, in which each is judged by many rules: wrong ones take a second in all."""


async def template_body(request: Request) -> JsonObject:
    """Return the template of a request: bare, or as `template_json`; never parsed twice.

    Raises MediaTypeError, ParseError, and RequestInvalidError with every violation.
    """
    media_type = require_media_type(request, JSON, BARE)
    body = await request.body()
    if media_type == BARE:
        return strict_object(body, max_depth=MAX_INPUT_DEPTH, max_members=MAX_MEMBERS)
    document = strict_object(body, max_depth=MAX_INPUT_DEPTH + 1, max_members=MAX_MEMBERS)
    try:
        return TheatreRequest.model_validate(document).template_json
    except ValidationError as error:
        raise RequestInvalidError(violations_of(error)) from None


async def addresses_in_template(
    request: Request, document: Annotated[JsonObject, Depends(template_body)]
) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the hosts that a template names.

    A dependency, to be asked for before a transaction: name servers take their time.
    """
    constructs = get_service(request).resources.constructs
    return await constructs.resolve_addresses(find_endpoints(document))


def optional_json_body(model: type[Document]) -> Callable[[Request], Awaitable[Document]]:
    """Return a dependency that reads a JSON object as `model`, or no body as its defaults."""
    read_body = json_body(model)

    async def read(request: Request) -> Document:
        return await read_body(request) if await request.body() else model()

    return read


def describe_template_body() -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads a template."""
    described = describe_body(TheatreRequest)
    bare = {"schema": {"type": "object", "description": "a template, as docs/templates.md has it"}}
    described["requestBody"]["content"][BARE] = bare
    return described


def describe_optional_body(model: type[Document]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body may be left out."""
    described = describe_body(model)
    described["requestBody"]["required"] = False
    return described
