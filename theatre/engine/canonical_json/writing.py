"""Canonical JSON (RFC 8785), and the hashes that are taken over it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import rfc8785

from theatre.engine.canonical_json.boundaries import MAX_SAFE_INTEGER, REFUSED, WRITTEN, JsonValue
from theatre.engine.errors import CanonicalisationError

# The canonical form of common values by orjson, ten times as fast as `rfc8785` finds it.
#
# Sure of itself or silent: where orjson might spell a value otherwise than RFC 8785 there is no
# quick form, and `rfc8785` decides (docs/adr/0006-rfc-8785.md). Whether this orjson spells as it
# should is tried when the module is loaded; where it does not, nothing has a quick form.


try:
    import orjson
except ImportError:  # not built for this machine: then `rfc8785` writes the same, slowly
    orjson = None  # type: ignore[assignment]

# Below, sorting by code point is sorting by UTF-16: surrogates and what comes after them differ.
_FIRST_SURROGATE = "\ud800"
# From here on, up to numbers that are all whole, orjson writes no exponent, nor does ECMAScript.
_FIRST_PLAIN = 1e-5
_LAST_WHOLE = float(MAX_SAFE_INTEGER)
_MANY_DIGITS = b"0" * 16
_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_ALIKE = frozenset({str, int, bool, type(None)})
"""What orjson spells as RFC 8785 does, or refuses: unsafe integers and lone surrogates."""


def fast_canonical_bytes(value: object) -> bytes | None:
    """Return the RFC 8785 form of `value`, or None where `rfc8785` must write it.

    None says nothing about `value`: it may have a canonical form or none.
    """
    return _write_fast(value) if IS_TRUSTED else None


def _write_fast(value: object) -> bytes | None:
    kind = type(value)
    try:
        spelt = value if kind in _ALIKE else _SPELLING[kind](value)
        return orjson.dumps(spelt, None, orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError):
        return None


class NotCanonical(Enum):
    """What is said of bytes that are not, or not surely, a canonical form."""

    NOT_CANONICAL = "not canonical"


def fast_canonical_value(data: bytes) -> JsonValue | NotCanonical:
    """Return the value whose quick form `data` is, a line feed behind it or not."""
    # A number of so many digits may be a whole one beyond 2^53, which the strict parser refuses.
    # Looked for as one text: a regular expression takes half of a record's reading, for its hashes.
    if not IS_TRUSTED or _MANY_DIGITS in data.translate(_AS_ZERO):
        return NotCanonical.NOT_CANONICAL
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError:
        return NotCanonical.NOT_CANONICAL
    is_form = _write_fast(value) == data.removesuffix(b"\n")
    return value if is_form else NotCanonical.NOT_CANONICAL


# A type that `_SPELLING` does not have, a subclass of one that it has included, is a KeyError. So
# is a key that orjson might sort otherwise; one that is no text lacks `isascii` (AttributeError),
# or orjson refuses it (TypeError).


def _object(value: dict[str, object]) -> dict[str, object]:
    changed: dict[str, object] | None = None
    for key, item in value.items():
        if not key.isascii() and max(key) >= _FIRST_SURROGATE:
            raise KeyError(key)
        kind = type(item)
        if kind not in _ALIKE:
            spelt = _SPELLING[kind](item)
            if spelt is not item:
                changed = value.copy() if changed is None else changed
                changed[key] = spelt
    return value if changed is None else changed


def _array(value: list[object] | tuple[object, ...]) -> list[object] | tuple[object, ...]:
    changed: list[object] | None = None
    for index, item in enumerate(value):
        kind = type(item)
        if kind not in _ALIKE:
            spelt = _SPELLING[kind](item)
            if spelt is not item:
                changed = list(value) if changed is None else changed
                changed[index] = spelt
    return value if changed is None else changed


def _number(value: float) -> object:
    """Return the integer of a whole number; and `rfc8785`'s word where orjson might differ."""
    if value.is_integer():
        if -_LAST_WHOLE <= value <= _LAST_WHOLE:
            return int(value)
    elif _FIRST_PLAIN <= value < _LAST_WHOLE or -_LAST_WHOLE < value <= -_FIRST_PLAIN:
        return value
    return orjson.Fragment(rfc8785.dumps(value))


_SPELLING: Final[dict[type, Callable[[Any], object]]] = {
    dict: _object,
    list: _array,
    tuple: _array,
    float: _number,
}

IS_TRUSTED: Final = (
    _write_fast(None) is not None
    and all(_write_fast(value) in (None, form.encode()) for value, form in WRITTEN)
    and all(_write_fast(value) is None for _, value in REFUSED)
)
"""Whether there is an orjson that writes each value at a border as RFC 8785 does, or refuses it."""


def canonical_bytes(value: object) -> bytes:
    """Return the RFC 8785 form of `value` as UTF-8.

    Dicts count as objects, lists and tuples as arrays. Raises CanonicalisationError for
    NaN, infinities, integers beyond ±(2^53-1), lone surrogates, keys that are not strings,
    nesting beyond what the interpreter can walk, and types that are not JSON.
    """
    quick = fast_canonical_bytes(value)
    return _reference_bytes(value) if quick is None else quick


def canonical_json(value: object) -> str:
    """Return the RFC 8785 form of `value` as text; errors as `canonical_bytes`."""
    return canonical_bytes(value).decode("utf-8")


def canonical_line(value: object) -> bytes:
    """Return the canonical bytes of `value` and one LF: how evidence files end each document."""
    return canonical_bytes(value) + b"\n"


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data`, 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_sha256(value: object) -> str:
    """Return the SHA-256 of the canonical bytes of `value`."""
    return sha256_hex(canonical_bytes(value))


def _reference_bytes(value: object) -> bytes:
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # refusing other types is its job
    except rfc8785.CanonicalizationError as error:
        raise CanonicalisationError(
            f"expected a JSON value with an RFC 8785 form: {error}"
        ) from error
    except UnicodeEncodeError as error:
        raise CanonicalisationError("expected Unicode text, got a lone surrogate") from error
    except ValueError as error:
        # rfc8785 prints the integer it refuses; Python prints none of more than 4,300 digits.
        raise CanonicalisationError("expected integers within ±(2^53-1), got a huge one") from error
    except RecursionError as error:
        raise CanonicalisationError("expected a value of modest depth, got one too deep") from error
