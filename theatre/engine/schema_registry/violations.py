"""One breach of a schema or a rule, and how it is worded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from theatre.engine.canonical_json import json_type

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

    from theatre.engine.canonical_json import JsonObject

UNUSABLE = "schema:unusable"
"""The rule that an inline schema breaks when it is no schema, or reaches outside itself."""

MAX_SHOWN = 80
"""The most characters of a value that a message repeats."""

_MAX_SHOWN_BITS = 64
_LITERALS = {"None": "null", "True": "true", "False": "false"}
_MAX_ALTERNATIVES = 4
_ARTICLES = {
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "array": "an array",
}


@dataclass(frozen=True, slots=True, order=True)
class SchemaViolation:
    """Where a document breaks which rule, and what was expected and seen.

    `pointer` is an RFC 6901 JSON Pointer into the document ("" is the whole of it); `rule` is
    stable: `schema:<keyword>`, or the name of a runtime rule. Sorts by pointer.
    """

    pointer: str
    rule: str
    detail: str

    def as_document(self) -> JsonObject:
        """Return the form that tools read: pointer, rule, detail."""
        return {"pointer": self.pointer, "rule": self.rule, "detail": self.detail}


def json_pointer(*parts: object) -> str:
    """Return the RFC 6901 JSON Pointer to `parts` (member names and array indices)."""
    return "".join(f"/{_token(part)}" for part in parts)


def quote(value: object) -> str:
    """Return `value` for a message: scalars cut to `MAX_SHOWN` characters, the rest by size.

    Control characters come out escaped, so a value cannot forge a line of a log.
    """
    if isinstance(value, str):
        return repr(value) if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]!r}… (cut)"
    if isinstance(value, Mapping | list | tuple):
        return f"an {json_type(value)} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return _LITERALS.get(repr(value), repr(value))
    return f"a value of type {type(value).__name__}"


def describe_value(value: object) -> str:
    """Return what kind of value it is, and how long, for a message that must not repeat it."""
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    kind = json_type(value)
    size = f" of {len(value)}" if isinstance(value, Mapping | list | tuple) else ""
    return f"{_ARTICLES.get(kind, kind)}{size}"


class Quoted(NamedTuple):
    """A value of the document, as a part of a message about it."""

    value: object
    spelt: Callable[[object], str] = quote


class Message(str):
    """A message that repeats values of the document; `discreet` is the same without them."""

    __slots__ = ("discreet",)
    discreet: str

    def changed(self, change: Callable[[str], str]) -> Message:
        """Return both forms of the message, each as `change` makes it."""
        made = Message(change(self))
        made.discreet = change(self.discreet)
        return made


def phrase(*parts: str | Quoted) -> Message:
    """Return the message that `parts` make; a plain text among them holds no value."""
    made = Message(
        "".join(one.spelt(one.value) if isinstance(one, Quoted) else one for one in parts)
    )
    made.discreet = "".join(
        describe_value(one.value) if isinstance(one, Quoted) else without_values(one)
        for one in parts
    )
    return made


def without_values(message: str) -> str:
    """Return a message for readers who must not see the document's values."""
    return message.discreet if isinstance(message, Message) else message


def read_violation(error: ValidationError) -> SchemaViolation:
    """Return the violation that `error` reports, in this module's words."""
    return SchemaViolation(
        pointer=json_pointer(*error.absolute_path),
        rule=f"schema:{_keyword(error)}",
        detail=_detail(error),
    )


def _token(part: object) -> str:
    token = str(part).replace("~", "~0").replace("/", "~1")
    # Half a surrogate pair in a member name must not make the message unprintable.
    return token.encode("utf-8", "backslashreplace").decode("utf-8")


def _keyword(error: ValidationError) -> str:
    # A schema that is plain `false` has no keyword to name.
    return error.validator if isinstance(error.validator, str) else "false"


def _detail(error: ValidationError) -> str:
    wording = _WORDINGS.get(_keyword(error))
    if wording is not None:
        return wording(error)
    expected = f"expected {_keyword(error)} {quote(error.validator_value)}, got "
    return phrase(expected, Quoted(error.instance))


def _own_words(error: ValidationError) -> str:
    return error.message


def _names(values: Iterable[object]) -> str:
    return ", ".join(value if isinstance(value, str) else quote(value) for value in values)


def _types(error: ValidationError) -> str:
    names = cast("str | list[str]", error.validator_value)
    expected = names if isinstance(names, str) else " or ".join(names)
    return f"expected {expected}, got {json_type(error.instance)}"


def _constant(error: ValidationError) -> str:
    return phrase(f"expected {quote(error.validator_value)}, got ", Quoted(error.instance))


def _enumeration(error: ValidationError) -> str:
    allowed = _names(cast("list[object]", error.validator_value))
    return phrase(f"expected one of {allowed}; got ", Quoted(error.instance))


def _alternatives(error: ValidationError) -> str:
    tried = list(dict.fromkeys(_detail(cause) for cause in error.context or ()))
    # `oneOf` also fails where several alternatives fit: then nothing was wrong with any of them.
    if not tried:
        return "expected one alternative to fit, got several"
    return phrase(
        tried[0], *(part for one in tried[1:_MAX_ALTERNATIVES] for part in ("; or ", one))
    )


def _counting(unit: str, bound: str) -> Callable[[ValidationError], str]:
    def wording(error: ValidationError) -> str:
        seen = len(cast("str", error.instance))
        return f"expected {bound} {error.validator_value} {unit}, got {seen}"

    return wording


def _comparing(comparison: str) -> Callable[[ValidationError], str]:
    def wording(error: ValidationError) -> str:
        bound = quote(error.validator_value)
        return phrase(f"expected a number {comparison} {bound}, got ", Quoted(error.instance))

    return wording


def _format(error: ValidationError) -> str:
    return phrase(f"expected a {error.validator_value}, got ", Quoted(error.instance))


def _nothing(error: ValidationError) -> str:
    return phrase("expected no value here, got ", Quoted(error.instance))


_WORDINGS: Mapping[str, Callable[[ValidationError], str]] = {
    "type": _types,
    "enum": _enumeration,
    "const": _constant,
    "format": _format,
    "anyOf": _alternatives,
    "oneOf": _alternatives,
    "minimum": _comparing("≥"),
    "maximum": _comparing("≤"),
    "exclusiveMinimum": _comparing(">"),
    "exclusiveMaximum": _comparing("<"),
    "minLength": _counting("characters", "at least"),
    "maxLength": _counting("characters", "at most"),
    "minItems": _counting("items", "at least"),
    "maxItems": _counting("items", "at most"),
    "minProperties": _counting("members", "at least"),
    "maxProperties": _counting("members", "at most"),
    "false": _nothing,
    # The dialect words these itself: it alone knows which member is meant.
    "required": _own_words,
    "dependentRequired": _own_words,
    "additionalProperties": _own_words,
    "pattern": _own_words,
    "multipleOf": _own_words,
    "uniqueItems": _own_words,
}
