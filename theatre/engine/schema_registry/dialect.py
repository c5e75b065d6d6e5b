r"""The validator class: draft 2020-12, with patterns and formats as the standards mean them.

Patterns are ECMA-262, where `$` is the end of the text; in Python it also accepts a newline
before it, so `^a$` would let "a\n" through. Formats are checked, not merely noted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError
from theatre.engine.schema_registry.pattern_words import pattern_words
from theatre.engine.schema_registry.violations import (
    UNUSABLE,
    Quoted,
    SchemaViolation,
    json_pointer,
    phrase,
)

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from theatre.engine.canonical_json import JsonObject

_ESCAPE_CLASS_OR_END = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
_ESCAPE_OR_SET_SIGN = re.compile(r"\\.|[\[&~|]", re.DOTALL)
_PYTHON_TOKENS = {"$": r"\Z", "[]": "(?!)", "[^]": r"[\s\S]"}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-fA-F]{2})*"
)


class _Validator(Protocol):
    """What a keyword needs of the validator that runs it."""

    def descend(
        self, instance: object, schema: object, path: object = None, schema_path: object = None
    ) -> Iterator[ValidationError]:
        """Validate a part of the document."""


@lru_cache(maxsize=512)
def ecma_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile an ECMA-262 pattern: `$` is the end of the text, `\d` and `\w` are ASCII.

    Raises re.error for what Python cannot compile.
    """
    return re.compile(_ESCAPE_CLASS_OR_END.sub(_python_token, pattern), re.ASCII)


def _python_token(token: re.Match[str]) -> str:
    text = token.group()
    if text.startswith("[") and text not in _PYTHON_TOKENS:
        # Inside a class ECMA takes these as they are; Python keeps them for set operations.
        return "[" + _ESCAPE_OR_SET_SIGN.sub(_escape, text[1:-1]) + "]"
    return _PYTHON_TOKENS.get(text, text)


def _escape(sign: re.Match[str]) -> str:
    return sign.group() if sign.group().startswith("\\") else f"\\{sign.group()}"


def _pattern(
    _validator: _Validator, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not ecma_pattern(pattern).search(instance):
        # Where the name of a key's variable belongs, some write the key.
        seen = "another text" if "_API_KEY" in pattern else Quoted(instance)
        yield ValidationError(phrase(f"expected {pattern_words(pattern)}, got ", seen))


def _pattern_properties(
    validator: _Validator, patterns: Mapping[str, object], instance: object, _schema: object
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if ecma_pattern(pattern).search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: _Validator, subschema: object, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known: Mapping[str, object] = schema.get("properties", {})
    patterns = [ecma_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    for name, value in instance.items():
        if name in known or any(pattern.search(name) for pattern in patterns):
            continue
        if subschema is False:
            expected = f"only {', '.join(known)};" if known else "no members,"
            yield ValidationError(phrase(f"expected {expected} got ", Quoted(name)), path=[name])
        else:
            yield from validator.descend(value, subschema, path=name)


def _required(
    _validator: _Validator, names: list[str], instance: object, _schema: object
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for name in names:
        if name not in instance:
            yield ValidationError(f"expected member {name}, got an object without it")


def _dependent_required(
    _validator: _Validator, dependents: Mapping[str, list[str]], instance: object, _schema: object
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for trigger, names in dependents.items():
        for name in names:
            if trigger in instance and name not in instance:
                yield ValidationError(f"expected member {name} beside {trigger}, got none")


def _multiple_of(
    _validator: _Validator, divisor: float, instance: object, _schema: object
) -> Iterator[ValidationError]:
    # In binary 0.3 is no multiple of 0.1, and infinity has no remainder at all.
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return
    endless = isinstance(instance, float) and not math.isfinite(instance)
    if endless or Fraction(repr(instance)) % Fraction(repr(divisor)):
        yield ValidationError(phrase(f"expected a multiple of {divisor!r}, got ", Quoted(instance)))


def _unique_items(
    _validator: _Validator, wanted: object, instance: object, _schema: object
) -> Iterator[ValidationError]:
    # jsonschema compares objects pair by pair: quadratic in what a stranger sends.
    if wanted is not True or not isinstance(instance, list):
        return
    if len({_comparable(item) for item in instance}) < len(instance):
        yield ValidationError(
            phrase("expected no item twice, got a repetition in ", Quoted(instance))
        )


def _comparable(value: object) -> Hashable:
    """Return a hashable value that is equal where JSON values are: 1 and 1.0, not 1 and true."""
    if isinstance(value, list):
        return "array", tuple(_comparable(item) for item in value)
    if isinstance(value, dict):
        return "object", frozenset((key, _comparable(item)) for key, item in value.items())
    return "boolean" if isinstance(value, bool) else "scalar", value


DialectValidator = extend(  # type: ignore[no-untyped-call]  # jsonschema leaves it untyped
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "required": _required,
        "dependentRequired": _dependent_required,
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
    },
)
"""Draft 2020-12 with this module's keywords. A bool is no number here, as in the draft."""

FORMATS = FormatChecker(formats=())
_NO_REMOTE: Registry[object] = Registry()
"""The formats that are checked: date-time (UTC, `Z`), date, uuid, uri, regex."""


@FORMATS.checks("date-time", raises=ClockError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(parse_rfc3339(value))


@FORMATS.checks("date", raises=ValueError)
def _is_date(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(_DATE.fullmatch(value) and date.fromisoformat(value))


@FORMATS.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or _UUID.fullmatch(value) is not None


@FORMATS.checks("uri", raises=ValueError)
def _is_uri(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(_URI.fullmatch(value) and urlsplit(value).scheme)


@FORMATS.checks("regex", raises=re.error)
def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or bool(ecma_pattern(value))


def compile_schema(schema: JsonObject) -> Validator:
    """Return the validator of `schema`, which fetches nothing: jsonschema would by default."""
    validator: Validator = DialectValidator(schema, registry=_NO_REMOTE, format_checker=FORMATS)
    return validator


# Schemas that come inside documents or plug-ins, and whether they can be used.
#
# A template's author writes `output_spec`, a plug-in ships `params_schema`: neither is trusted to
# be a schema, to stand on its own, or to end.


_REFERENCES = ("$ref", "$dynamicRef")


def schema_faults(schema: Mapping[str, object]) -> list[SchemaViolation]:
    """Return why `schema` cannot be used, pointers into the schema; empty where it can.

    It must be valid draft 2020-12, name no `$id` below its root, and every reference in it must
    be local (`#…`) and lead to a schema.
    """
    faults = _not_a_schema(schema, "")
    if faults:
        return faults
    registry = _registry_of(schema)
    return sorted(
        fault for path, node in _objects(schema) for fault in _node_faults(path, node, registry)
    )


def _not_a_schema(schema: object, base: str) -> list[SchemaViolation]:
    try:
        Draft202012Validator.check_schema(schema, format_checker=FORMATS)  # type: ignore[arg-type]  # whatever it is
    except SchemaError as error:
        where = base + json_pointer(*error.absolute_path)
        detail = phrase("expected a JSON Schema 2020-12, got ", Quoted(error.instance))
        return [SchemaViolation(where, UNUSABLE, detail)]
    return []


def _registry_of(schema: Mapping[str, object]) -> Registry[object]:
    # Under an empty base URI a fragment is looked up in this very document, whatever its $id.
    anonymous = {key: value for key, value in schema.items() if key != "$id"}
    resource = DRAFT202012.create_resource(anonymous)
    registry: Registry[object] = Registry().with_resource("", resource)
    return registry


def _objects(schema: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    stack: list[tuple[str, object]] = [("", schema)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, Mapping):
            yield path, node
            stack.extend((path + json_pointer(key), value) for key, value in node.items())
        elif isinstance(node, list):
            stack.extend((path + json_pointer(at), value) for at, value in enumerate(node))


def _node_faults(
    path: str, node: Mapping[str, object], registry: Registry[object]
) -> Iterator[SchemaViolation]:
    if path and isinstance(node.get("$id"), str):
        yield SchemaViolation(path, UNUSABLE, "expected no $id below the root, got one")
    for keyword in _REFERENCES:
        reference = node.get(keyword)
        if isinstance(reference, str):
            yield from _reference_faults(path + json_pointer(keyword), reference, registry)


def _reference_faults(
    path: str, reference: str, registry: Registry[object]
) -> Iterator[SchemaViolation]:
    if not reference.startswith("#"):
        detail = phrase("expected a local reference (#…), got ", Quoted(reference))
        yield SchemaViolation(path, UNUSABLE, detail)
        return
    try:
        target = registry.resolver().lookup(reference).contents
    except Unresolvable:
        detail = phrase("expected a reference that leads to a schema, got ", Quoted(reference))
        yield SchemaViolation(path, UNUSABLE, detail)
        return
    yield from _not_a_schema(target, path)
