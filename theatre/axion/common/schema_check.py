"""Every violation of a schema of this package, in the engine's words."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from referencing import Registry

from theatre.axion.common.schema_load import fits, schema
from theatre.engine.schema_registry.dialect import FORMATS, DialectValidator
from theatre.engine.schema_registry.violations import SchemaViolation, read_violation

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
