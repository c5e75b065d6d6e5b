"""Copies, for queries, of documents whose exact bytes are stored as well.

PostgreSQL's texts and JSONB cannot hold the character U+0000, which JSON can. In a copy it becomes
U+FFFD; the bytes keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theatre.engine.canonical_json import JsonObject

_REPLACEMENT = "\ufffd"


def queryable_text(text: str) -> str:
    """Return `text` as a column can hold it."""
    return text.replace("\0", _REPLACEMENT)


def queryable(document: JsonObject) -> JsonObject:
    """Return `document` as a JSONB column can hold it."""
    return {queryable_text(key): _value(value) for key, value in document.items()}


def queryable_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose texts and JSON documents a table can hold; other values as they are."""
    return {column: _value(value) for column, value in row.items()}


def _value(value: Any) -> Any:  # noqa: ANN401 - JSON, or what a column holds
    if isinstance(value, str):
        return queryable_text(value)
    if isinstance(value, dict):
        return queryable(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value
