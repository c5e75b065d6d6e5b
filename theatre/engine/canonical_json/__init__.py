"""Canonical JSON (RFC 8785) and the strict parser: the only ways out of and into a hash.

Source: docs/contract/evidence.md §1. `rfc8785` does the serialising, or a quicker way that is sure
of the same bytes; this package adds the refusals that the contract lists.
"""

from theatre.engine.canonical_json.boundaries import (
    MAX_DEPTH,
    MAX_INPUT_DEPTH,
    MAX_SAFE_INTEGER,
    JsonObject,
    JsonValue,
    json_type,
)
from theatre.engine.canonical_json.parsing import (
    DEFAULT_MAX_BYTES,
    parse_json,
    parse_object,
    read_canonical,
)
from theatre.engine.canonical_json.writing import (
    canonical_bytes,
    canonical_json,
    canonical_line,
    canonical_sha256,
    sha256_hex,
)

__all__ = [
    "DEFAULT_MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INPUT_DEPTH",
    "MAX_SAFE_INTEGER",
    "JsonObject",
    "JsonValue",
    "canonical_bytes",
    "canonical_json",
    "canonical_line",
    "canonical_sha256",
    "json_type",
    "parse_json",
    "parse_object",
    "read_canonical",
    "sha256_hex",
]
