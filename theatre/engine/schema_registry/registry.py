"""`SchemaRegistry`: validate a document against a shipped or an inline schema; never raise."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from theatre.engine.canonical_json import MAX_DEPTH, canonical_json
from theatre.engine.errors import CanonicalisationError, ResourceMissingError
from theatre.engine.schema_registry.violations import (
    UNUSABLE,
    Quoted,
    SchemaViolation,
    phrase,
    read_violation,
)

# A cache for many similar documents and one schema: a member that fitted once fits again.
#
# An object fits a schema exactly if it fits the schema without its `properties`, and each member
# its own part of them. So a member needs no second look where one with the same text has fitted.
# The caller need not say which members repeat.


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


# Where the files lie that ship with the package.


_PACKAGE = Path(__file__).resolve().parents[2]


def resource_root() -> Path:
    """Return the folder that holds `docs/schemas/…` and `fixtures/…`.

    In an installed wheel that is `theatre/_resources`, in a checkout the repository root.
    Raises ResourceMissingError where neither holds `docs/schemas`.
    """
    installed, checkout = _PACKAGE / "_resources", _PACKAGE.parent
    for root in (installed, checkout):
        if (root / "docs" / "schemas").is_dir():
            return root
    raise ResourceMissingError(
        f"expected docs/schemas in {installed} or {checkout}, got neither: "
        "install the package again"
    )


if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from theatre.engine.canonical_json import JsonObject, JsonValue

_MAX_INTEGER_BITS = 1024
_ENDLESS = SchemaViolation(
    "", UNUSABLE, "expected a schema that ends, got one that refers to itself without end"
)


class SchemaRegistry:
    """The schemas in `docs/schemas`, and the way any schema is applied. Caches compiled ones."""

    def __init__(self) -> None:
        self._compile: dict[str, Validator] = {}

    def validate(self, schema_name: str, document: object) -> list[SchemaViolation]:
        """Return every violation of the shipped schema (file name) by `document`, by pointer.

        Raises ResourceMissingError for a schema that does not ship; nothing for any document.
        """
        return _violations(self._load_shipped(schema_name), document)

    def validate_cached(self, schema_name: str) -> Callable[[object], list[SchemaViolation]]:
        """Return what validates one document after another, as `validate` does, but sooner.

        For an object schema, and documents much of which is the same: each equal member is looked
        at once. What is returned remembers; it is for one thread and one row of documents.
        """
        validator = self._load_shipped(schema_name)
        alike = ValidationCache(validator)

        def violations(document: object) -> list[SchemaViolation]:
            if isinstance(document, dict) and _not_json(document) is None and alike.fit(document):
                return []
            return _violations(validator, document)

        return violations

    def validate_inline(
        self, schema: Mapping[str, object], document: object
    ) -> list[SchemaViolation]:
        """Return every violation of `schema` by `document`, by pointer; never raises.

        A schema that cannot be used itself gives one violation `schema:unusable` at "".
        """
        try:
            compiled = _inline(canonical_json(schema))
            if isinstance(compiled, SchemaViolation):
                return [compiled]
            return _violations(compiled, document)
        except CanonicalisationError as error:
            return [SchemaViolation("", UNUSABLE, f"expected a JSON Schema: {error}"[:200])]
        except RecursionError:
            return [_ENDLESS]

    def inline_faults(self, schema: Mapping[str, object]) -> list[SchemaViolation]:
        """Return why `schema` cannot be used, with pointers into it; empty where it can."""
        # Most steps commit to no schema: for the empty one jsonschema need not be loaded.
        if schema == {}:
            return []
        fault = _not_json(schema)
        if fault is not None:
            return [fault]
        try:
            return _faults(schema)
        except RecursionError:
            return [_ENDLESS]

    def _load_shipped(self, name: str) -> Validator:
        if name not in self._compile:
            path = resource_root() / "docs" / "schemas" / name
            try:
                text = path.read_text(encoding="utf-8")
            except OSError as error:
                raise ResourceMissingError(
                    f"expected the schema {name} in docs/schemas, got no readable file"
                ) from error
            self._compile[name] = _compile(_joined(json.loads(text)))
        return self._compile[name]


def _joined(schema: JsonObject) -> JsonObject:
    """Put in the place of each reference what it names: looking them up takes half of the time."""
    seen: set[int] = set()

    def part(node: JsonValue) -> JsonValue:
        while isinstance(node, dict) and "$ref" in node and node.keys() <= {"$ref", "description"}:
            path = cast("str", node["$ref"]).removeprefix("#/").split("/")
            node = reduce(lambda at, key: cast("JsonObject", at)[key], path, cast("Any", schema))
        if isinstance(node, dict) and id(node) not in seen:
            seen.add(id(node))
            node.update({key: part(value) for key, value in node.items()})
        elif isinstance(node, list):
            node[:] = [part(value) for value in node]
        return node

    return cast("JsonObject", part(schema))


@lru_cache(maxsize=256)
def _inline(schema_text: str) -> Validator | SchemaViolation:
    """Compile an inline schema, or say why not. Keyed by text: equal schemas compile once."""
    schema = json.loads(schema_text)
    fault = _not_json(schema)
    if fault is not None:
        return SchemaViolation("", UNUSABLE, fault.detail)
    for found in _faults(schema):
        return SchemaViolation(
            "", UNUSABLE, phrase(f"at {found.pointer or 'the root'}: ", found.detail)
        )
    # Without its $id, so that local references stay local under every base URI.
    return _compile({key: value for key, value in schema.items() if key != "$id"})


def _compile(schema: JsonObject) -> Validator:
    # Loaded late, here and below: models are made without jsonschema.
    from theatre.engine.schema_registry.dialect import compile_schema  # noqa: PLC0415  # see above

    return compile_schema(schema)


def _faults(schema: Mapping[str, object]) -> list[SchemaViolation]:
    from theatre.engine.schema_registry.dialect import schema_faults  # noqa: PLC0415  # see above

    return schema_faults(schema)


def _violations(validator: Validator, document: object) -> list[SchemaViolation]:
    fault = _not_json(document)
    if fault is not None:
        return [fault]
    checked = cast("JsonValue", document)
    return sorted({read_violation(error) for error in validator.iter_errors(checked)})


def _not_json(document: object) -> SchemaViolation | None:
    """Return what keeps `document` from being looked at at all.

    The parser refuses all of this in bytes; a document that was built in Python may still be
    endless, hold keys that are no text, or integers that Python will not even print.
    """
    stack = [(document, 0)]
    while stack:
        value, depth = stack.pop()
        if depth > MAX_DEPTH:
            detail = f"expected at most {MAX_DEPTH} levels of nesting, got more"
            return SchemaViolation("", "schema:depth", detail)
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return SchemaViolation("", "schema:json", "expected keys of text, got another type")
            stack.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list):
            stack.extend((item, depth + 1) for item in value)
        elif not _is_scalar(value):
            detail = phrase("expected JSON, got ", Quoted(value))
            return SchemaViolation("", "schema:json", detail)
    return None


def _is_scalar(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= _MAX_INTEGER_BITS
    return value is None or isinstance(value, str | float)
