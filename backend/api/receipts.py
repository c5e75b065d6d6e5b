"""Commitment receipts as answers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from starlette.responses import Response

from backend.api.bodies import JSON
from backend.api.conditional import immutable_response
from theatre.engine.canonical_json import canonical_bytes, parse_object, sha256_hex

Format = Annotated[
    Literal["canonical"] | None,
    Query(alias="format", description="the bytes whose SHA-256 is the commitment hash"),
]


def receipt_answer(request: Request, receipt: bytes, form: str | None) -> Response:
    """Return the receipt, or the canonical bytes that its hash is of."""
    body = receipt if form is None else _hashed_bytes(receipt)
    return immutable_response(request, body, sha256=sha256_hex(body), media_type=JSON)


def _hashed_bytes(receipt: bytes) -> bytes:
    document = parse_object(receipt)
    return canonical_bytes(
        {
            "dataset_hashes": document["dataset_hashes"],
            "template": document["template_snapshot"],
            "version_pins": document["version_pins"],
        }
    )
