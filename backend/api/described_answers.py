"""Answers as routes describe them: headers, bytes, and where a theatre goes on."""

from __future__ import annotations

from typing import Any

Described = dict[int | str, dict[str, Any]]


_BYTES = {"type": "string", "format": "binary"}
_BODIES: dict[str, dict[str, str]] = {"application/json": {"type": "object"}}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "required": True}


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
IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "entity tags that the reader has already",
    "schema": {"type": "string"},
}
RANGE: dict[str, Any] = {
    "name": "Range",
    "in": "header",
    "required": False,
    "description": "one range of bytes; anything else is answered whole",
    "schema": {"type": "string"},
}
PREFER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`: have the answer wait for the end, at most 60 seconds (RFC 7240)",
    "schema": {"type": "string"},
}


def describe_headers(*parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads these headers."""
    return {"parameters": list(parameters)}


def describe_tagged(*, links: dict[str, Any] | None = None) -> Described:
    """Describe a document with an entity tag."""
    described: dict[str, Any] = {"headers": {**ETAG, **CACHING}}
    return {200: {**described, "links": links} if links else described, **NOT_MODIFIED}


def describe_immutable(model: object, description: str, **more: dict[str, Any]) -> Described:
    """Describe a document whose bytes never change; `more` are further headers."""
    headers = {**ETAG, **DIGEST, **CACHING, **more}
    return {
        200: {"model": model, "description": description, "headers": headers},
        **NOT_MODIFIED,
    }


def describe_download(*media_types: str, description: str) -> Described:
    """Describe a file, whole or one range of it."""
    content = {name: {"schema": _BODIES.get(name, _BYTES)} for name in media_types}
    headers = {**ETAG, **DIGEST, **CACHING, **DESCRIBED_BY}
    part = {"Content-Range": _header("which bytes of how many")}
    return {
        200: {"description": description, "headers": headers, "content": content},
        206: {
            "description": "The range that was asked",
            "headers": {**headers, **part},
            "content": {name: {"schema": _BYTES} for name in media_types},
        },
        **NOT_MODIFIED,
    }


def describe_text_file(media_type: str, *, description: str) -> Described:
    """Describe a text that is always sent whole."""
    headers = {**ETAG, **DIGEST, **CACHING}
    content = {media_type: {"schema": {"type": "string"}}}
    return {
        200: {"description": description, "headers": headers, "content": content},
        **NOT_MODIFIED,
    }


def describe_links(*operations: str, named: str = "theatre_id") -> dict[str, Any]:
    """Return the links from a theatre, or what else is `named`, to what can be done with it."""
    return {
        operation: {
            "operationId": operation,
            "parameters": {named: "$response.body#/id"},
        }
        for operation in operations
    }
