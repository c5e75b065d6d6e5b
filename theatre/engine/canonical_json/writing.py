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
_SIGN_AND_DIGITS = b"-0123456789"
_AS_COMMA_AND_E = bytes.maketrans(b"[.", b",e")
_ALIKE = frozenset({str, int, bool, type(None)})
"""What orjson spells as RFC 8785 does, or refuses: unsafe integers and lone surrogates."""


def fast_canonical_bytes(value: object) -> bytes | None:
    """Return the RFC 8785 form of `value`, or None where `rfc8785` must write it.

    None says nothing about `value`: it may have a canonical form or none.
    """
    return _write_fast(value) if IS_TRUSTED else None


def _dumps(value: object) -> bytes:
    return orjson.dumps(value, None, orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)


def _write_fast(value: object) -> bytes | None:
    kind = type(value)
    try:
        spelt = value if kind in _ALIKE else _SPELLING[kind](value)
        return _dumps(spelt)
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError):
        return None


def are_spelt_alike(one: object, other: object) -> bool:
    """Return whether a quick look sees two JSON values written the same; false says nothing."""
    try:
        return IS_TRUSTED and _dumps(one) == _dumps(other)
    except orjson.JSONEncodeError:
        return False


class NotCanonical(Enum):
    """What is said of bytes that are not, or not surely, a canonical form."""

    NOT_CANONICAL = "not canonical"


def fast_canonical_value(data: bytes) -> JsonValue | NotCanonical:
    """Return the value whose quick form `data` is, a line feed behind it or not."""
    if not IS_TRUSTED:
        return NotCanonical.NOT_CANONICAL
    try:
        value: JsonValue = orjson.loads(data)
        form = _dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return NotCanonical.NOT_CANONICAL
    if form != data.removesuffix(b"\n") or not (_is_plain(form) or _write_fast(value) == form):
        return NotCanonical.NOT_CANONICAL
    return value


def _is_plain(form: bytes) -> bool:
    """Return whether all members have ASCII names, and all numbers are integers.

    Then what orjson writes of what it has read is RFC 8785. A fraction or an exponent stands behind
    a member's name, a comma, a bracket, or nothing, with no more than a sign and digits between.
    """
    bare = form.translate(_AS_COMMA_AND_E, _SIGN_AND_DIGITS)
    # From behind: a comma or a quote is rarer than the letter, so fewer places are looked at.
    is_whole = bare.rfind(b",e") < 0 and bare.rfind(b'":e') < 0 and not bare.startswith(b"e")
    return form.isascii() and is_whole


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
    and not any(type(value) is float and _is_plain(_dumps(value)) for value, _ in WRITTEN)
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
