"""A cache for many similar documents and one schema: a member that fitted once fits again.

An object fits a schema exactly if it fits the schema without its `properties`, and each member its
own part of them. So a member needs no second look where one with the same text has fitted. The
caller need not say which members repeat.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from theatre.engine.canonical_json import JsonObject, JsonValue

_KINDS = 64
_LONGEST = 4096
"""In characters: beyond either, a member is taken for one that never repeats."""


class ValidationCache:
    """The look at documents of one schema, for as long as they come; knows what has fitted."""

    def __init__(self, validator: Validator) -> None:
        """Take the compiled schema of an object with `properties`."""
        schema = cast("dict[str, JsonObject]", validator.schema)
        parts = schema["properties"]
        # The names stay: what `additionalProperties` means depends on them.
        frame = {**schema, "properties": dict.fromkeys(parts, True)}
        self._frame = validator.evolve(schema=frame)
        self._members = {
            name: _Member(validator.evolve(schema=part)) for name, part in parts.items()
        }

    def fit(self, document: JsonObject) -> bool:
        """Return whether `document`, which must be JSON, breaks nothing in the schema."""
        return self._frame.is_valid(document) and all(
            self._members[name].fits(value)
            for name, value in document.items()
            if name in self._members
        )


class _Member:
    """One member of all the documents."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._fitted: set[str] | None = set()

    def fits(self, value: JsonValue) -> bool:
        if self._fitted is None:
            return self._validator.is_valid(value)
        # In its text 1 is neither 1.0 nor true, as they are to a schema.
        text = json.dumps(value)
        if text not in self._fitted:
            if not self._validator.is_valid(value):
                return False
            self._fitted.add(text)
            if len(self._fitted) > _KINDS or len(text) > _LONGEST:
                self._fitted = None
        return True
