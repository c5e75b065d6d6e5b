"""What JSON holds, and the limits that reading and writing share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64
MAX_INPUT_DEPTH = 48
"""Levels of what comes from outside (answers, episodes, templates): our own records wrap it in
more, and must stay within MAX_DEPTH to be read back."""


def json_type(value: object) -> str:
    """Name the JSON type of `value`, for error messages."""
    names: list[tuple[type | tuple[type, ...], str]] = [
        (type(None), "null"),
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (Mapping, "object"),
        ((list, tuple), "array"),
    ]
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)
