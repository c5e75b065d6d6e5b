"""The schemas of the package, read from their files, and what breaks them, in the engine's words.

References lead to files of this folder and nowhere else (docs/requirements.md R111).
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from referencing import Registry

from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import Document
from theatre.engine.schema_registry.dialect import FORMATS, DialectValidator
from theatre.engine.schema_registry.violations import SchemaViolation, read_violation

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_FILE = re.compile(r"(?:ext/)?[a-z0-9_]+")
# Nothing is left to look up in it: a reference that is still there must fail, not go online.
_NO_REMOTE: Registry[object] = Registry()


@cache
def schema(name: str) -> Document:
    """Return the schema `name` (its file without `.json`), every reference in it replaced.

    Raises UnknownNameError for a schema that does not ship.
    """
    resolved: Document = _resolve(_read(name))
    return resolved


def violations(name: str, document: object) -> list[SchemaViolation]:
    """Return every violation of the schema `name` by `document`, by pointer; empty where it fits.

    `document` comes from the strict parser: a NaN, which JSON Schema would let pass any bound,
    is refused all the same. Raises UnknownNameError for a schema that does not ship.
    """
    if _holds_nan(document):
        return [SchemaViolation("", "schema:json", "expected finite numbers, got NaN")]
    return sorted({read_violation(error) for error in _validator(name).iter_errors(document)})  # type: ignore[arg-type]  # any JSON value


def _read(name: str) -> Document:
    path = files("theatre.axion") / "schemas" / f"{name}.json"
    if not _FILE.fullmatch(name) or not path.is_file():
        raise UnknownNameError(f"expected the name of a shipped schema, got {name!r:.80}")
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return document


def _resolve(value: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return `value` with what its references name in their places: there is no cycle in them."""
    if isinstance(value, list):
        return [_resolve(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" not in value:
        return {key: _resolve(item) for key, item in value.items()}
    name, _, pointer = value["$ref"].partition("#")
    target = _read(name.removesuffix(".json"))
    for part in pointer.split("/")[1:]:
        target = target[part]
    return {key: _resolve(item) for key, item in target.items() if key not in ("$schema", "$id")}


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
