"""JSON values of untrusted documents: looked up, compared and shown, never trusted.

Two values are the same here exactly if their canonical bytes are: 1 and 1.0 are, 1 and true are
not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from theatre.engine.canonical_json import JsonValue, canonical_json, json_type
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError, TheatreError

MAX_SHOWN = 100
"""The most characters of a value that a report repeats."""

_MAX_TEXT = 500


class Nothing(Enum):
    """What a lookup finds where there is nothing; null is a value, this is not."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


class DefectError(TheatreError):
    """Part of a bundle is not as specified; caught by the check that looked at it."""

    code = "bundle-defect"

    def __init__(self, expected: str, actual: str) -> None:
        """Keep both halves of the message apart, as a report shows them."""
        super().__init__(f"expected {expected}, got {actual}")
        self.expected = expected
        self.actual = actual


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place (JSON Pointer) at which two values differ."""

    pointer: str
    expected: JsonValue | Nothing
    actual: JsonValue | Nothing


def at(value: JsonValue | Nothing, *keys: str | int) -> JsonValue | Nothing:
    """Return what lies below `value` at member names and array indices, or NOTHING."""
    current = value
    for key in keys:
        if isinstance(key, str):
            if not isinstance(current, dict) or key not in current:
                return NOTHING
            current = current[key]
        else:
            if not isinstance(current, list) or not -len(current) <= key < len(current):
                return NOTHING
            current = current[key]
    return current


def same_json(one: JsonValue | Nothing, other: JsonValue | Nothing) -> bool:
    """Return whether two values are the same JSON value; NOTHING is the same as nothing at all."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same_json(item, other[key]) for key, item in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same_json(left, right) for left, right in zip(one, other, strict=True))
        )
    if isinstance(one, Nothing) or isinstance(other, Nothing):
        return False
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def first_difference(
    expected: JsonValue | Nothing, actual: JsonValue | Nothing
) -> Difference | None:
    """Return the first place at which `actual` is not `expected`; None where they are the same."""
    # Equal texts are equal values, and soon compared; others may be equal all the same (1, 1.0).
    if expected is not NOTHING and repr(expected) == repr(actual):
        return None
    if same_json(expected, actual):
        return None
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            if not same_json(at(expected, key), at(actual, key)):
                return _below(f"/{key}", at(expected, key), at(actual, key))
    if isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            if not same_json(at(expected, index), at(actual, index)):
                return _below(f"/{index}", at(expected, index), at(actual, index))
    return Difference("", expected, actual)


def require_members(value: JsonValue | Nothing, names: frozenset[str], what: str) -> None:
    """Raise DefectError unless `value` is an object with exactly the members `names`."""
    if not isinstance(value, dict):
        raise DefectError(f"{what} as an object", render(value))
    if value.keys() != names:
        odd = ", ".join(sorted(value.keys() ^ names))
        raise DefectError(f"{what} with exactly {', '.join(sorted(names))}", f"a difference: {odd}")


def require_same(what: str, expected: JsonValue | Nothing, actual: JsonValue | Nothing) -> None:
    """Raise DefectError, with the place, unless `actual` is the same JSON value as `expected`."""
    found = first_difference(expected, actual)
    if found is not None:
        place = f"{what}{found.pointer}"
        raise DefectError(f"{place} {render(found.expected)}", render(found.actual))


def require_time(value: JsonValue | Nothing, what: str) -> str:
    """Return `value`. Raises DefectError unless it is an RFC 3339 time in UTC."""
    text = value if isinstance(value, str) else ""
    try:
        parse_rfc3339(text)
    except ClockError as error:
        raise DefectError(f"{what} as an RFC 3339 time in UTC", render(value)) from error
    return text


def is_whole(value: JsonValue | Nothing) -> bool:
    """Return whether `value` is an integer (no boolean, no fraction)."""
    return isinstance(value, int) and not isinstance(value, bool)


def render(value: JsonValue | Nothing) -> str:
    """Return `value` for a report: its canonical text, cut."""
    if isinstance(value, Nothing):
        return "nothing"
    if isinstance(value, (dict, list)) and len(value) > MAX_SHOWN:
        return f"an {json_type(value)} of {len(value)}"
    text = canonical_json(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def printable(text: str) -> str:
    """Return `text` on one line, without control characters and half surrogates, cut."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(plain) > _MAX_TEXT:
        plain = f"{plain[:_MAX_TEXT]}… (cut)"
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in plain
    )


def text_members(value: JsonValue | Nothing) -> Mapping[str, str]:
    """Return the members of an object that are text; empty where it is no object."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def _below(prefix: str, expected: JsonValue | Nothing, actual: JsonValue | Nothing) -> Difference:
    inner = first_difference(expected, actual)
    if inner is None:
        return Difference(prefix, expected, actual)
    return Difference(prefix + inner.pointer, inner.expected, inner.actual)


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
