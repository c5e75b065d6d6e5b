"""The schemas of the package, read from their files, and a check that is quick to say yes.

References between them are followed here, to files of this folder and nowhere else. What
`fits` is not sure of, `theatre.axion.common.schema_load` decides and words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from referencing import Registry

from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import Document
from theatre.engine.schema_registry.dialect import FORMATS, DialectValidator
from theatre.engine.schema_registry.violations import SchemaViolation, read_violation

Check = Callable[[Any], bool]

_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "type"})
_FILE = re.compile(r"(?:ext/)?[a-z0-9_]+")


@cache
def schema(name: str) -> Document:
    """Return the schema `name` (its file without `.json`), every reference in it replaced.

    Raises UnknownNameError for a schema that does not ship.
    """
    resolved = _resolve(_read(name))
    if not isinstance(resolved, dict):
        raise UnknownNameError(f"expected the schema {name} to be an object, got something else")
    return resolved


def fits(name: str, document: object) -> bool:
    """Return whether `document` certainly keeps the schema `name`; False may mean "not sure"."""
    return _compiled_schema(name)(document)


@cache
def _compiled_schema(name: str) -> Check:
    return _compiled(schema(name))


@cache
def _read(name: str) -> Document:
    path = files("theatre.axion") / "schemas" / f"{name}.json"
    if not _FILE.fullmatch(name) or not path.is_file():
        raise UnknownNameError(f"expected the name of a shipped schema, got {name!r:.80}")
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return document


def _resolve(value: object) -> object:
    if isinstance(value, list):
        return [_resolve(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" not in value:
        return {key: _resolve(item) for key, item in value.items()}
    name, _, pointer = value["$ref"].partition("#")
    target: Any = _read(name.removesuffix(".json"))
    for part in pointer.split("/")[1:]:
        target = target[part]
    return {key: _resolve(item) for key, item in target.items() if key not in ("$schema", "$id")}


def _compiled(part: Mapping[str, Any]) -> Check:
    """Return a check of one schema; raises UnknownNameError for a keyword it does not know."""
    kind = part.get("type")
    unknown = set(part) - _ANNOTATIONS - _KEYWORDS.get(kind, frozenset())
    if unknown:
        raise UnknownNameError(f"expected keywords of {kind}, got {sorted(unknown)}")
    return _BUILDERS[kind](part)


def _object(part: Mapping[str, Any]) -> Check:
    members = {name: _compiled(item) for name, item in part.get("properties", {}).items()}
    required = frozenset(part.get("required", ()))
    closed = part.get("additionalProperties", True) is False

    def check(value: Any) -> bool:  # noqa: ANN401 - any JSON value
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, item in value.items():
            member = members.get(name)
            if member is None:
                if closed:
                    return False
            elif not member(item):
                return False
        return True

    return check


def _array(part: Mapping[str, Any]) -> Check:
    item_fits = _compiled(part["items"])
    least, most = part.get("minItems", 0), part["maxItems"]

    def check(value: Any) -> bool:  # noqa: ANN401 - any JSON value
        return type(value) is list and least <= len(value) <= most and all(map(item_fits, value))

    return check


def _string(part: Mapping[str, Any]) -> Check:
    least, most = part.get("minLength", 0), part.get("maxLength")
    allowed = frozenset(part["enum"]) if "enum" in part else None
    pattern = re.compile(part["pattern"].removesuffix("$") + r"\Z") if "pattern" in part else None

    def check(value: Any) -> bool:  # noqa: ANN401 - any JSON value
        if type(value) is not str or len(value) < least or (most and len(value) > most):
            return False
        if allowed is not None and value not in allowed:
            return False
        return pattern is None or pattern.match(value) is not None

    return check


def _number(part: Mapping[str, Any]) -> Check:
    # A whole float is an integer in JSON Schema; that is left to the slower check.
    kinds = (int,) if part["type"] == "integer" else (int, float)
    low, high = part["minimum"], part.get("maximum", float("inf"))

    def check(value: Any) -> bool:  # noqa: ANN401 - any JSON value
        return type(value) in kinds and low <= value <= high

    return check


def _boolean(_part: Mapping[str, Any]) -> Check:
    return lambda value: type(value) is bool


def _anything(_part: Mapping[str, Any]) -> Check:
    return lambda _value: True


_KEYWORDS: Mapping[str | None, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "enum"}),
    "integer": frozenset({"minimum", "maximum"}),
    "number": frozenset({"minimum", "maximum"}),
}
_BUILDERS: Mapping[str | None, Callable[[Mapping[str, Any]], Check]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": _boolean,
    None: _anything,
}


# Every violation of a schema of this package, in the engine's words.


if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_NO_REMOTE: Registry[object] = Registry()


def violations(name: str, document: object) -> list[SchemaViolation]:
    """Return every violation of the schema `name` by `document`, by pointer; empty where it fits.

    `document` comes from the strict parser: a NaN, which JSON Schema would let pass any bound,
    is refused all the same. Raises UnknownNameError for a schema that does not ship.
    """
    if fits(name, document):
        return []
    if _holds_nan(document):
        return [SchemaViolation("", "schema:json", "expected finite numbers, got NaN")]
    return sorted({read_violation(error) for error in _validator(name).iter_errors(document)})  # type: ignore[arg-type]  # any JSON value


@cache
def _validator(name: str) -> Validator:
    validator: Validator = DialectValidator(
        schema(name), registry=_NO_REMOTE, format_checker=FORMATS
    )
    return validator


def _holds_nan(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_holds_nan(item) for item in value.values())
    return isinstance(value, list) and any(_holds_nan(item) for item in value)
