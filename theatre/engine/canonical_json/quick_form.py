"""The canonical form of common values, three to five times as fast as `rfc8785` finds it.

Sure of itself or silent: for anything whose RFC 8785 form the encoder of `json` might spell
otherwise there is no quick form, and `rfc8785` decides (contract/evidence.md §1).
"""

from __future__ import annotations

import json

from theatre.engine.canonical_json.values import MAX_DEPTH, MAX_SAFE_INTEGER

# Below, sorting by code point is sorting by UTF-16: surrogates and what comes after them differ.
_FIRST_SURROGATE = "\ud800"
# From here on, up to numbers that are all whole, `repr` writes no exponent, nor does ECMAScript.
_FIRST_PLAIN = 1e-4
_ALIKE = frozenset({str, bool, type(None)})

_encode = json.JSONEncoder(
    ensure_ascii=False,
    check_circular=False,
    allow_nan=False,
    sort_keys=True,
    separators=(",", ":"),
).encode


class _UnsureError(Exception):
    """A value that only `rfc8785` may write or refuse."""


def quick_bytes(value: object) -> bytes | None:
    """Return the RFC 8785 form of `value`, or None where another way of writing it must be taken.

    None says nothing about `value`: it may have a canonical form or none.
    """
    try:
        return _encode(_spelt_alike(value, MAX_DEPTH)).encode("utf-8")
    except (_UnsureError, UnicodeEncodeError, RecursionError):
        return None


def _spelt_alike(value: object, levels: int) -> object:
    """Return `value`, whole floats in it made integers: `json` and RFC 8785 spell it alike.

    Types are compared exactly: how a subclass is spelt is its own affair. `levels` bounds the
    nesting. Raises _UnsureError.
    """
    if type(value) in _ALIKE:
        return value
    if type(value) is dict and levels:
        return _object(value, levels - 1)
    if type(value) is list and levels:
        return [_spelt_alike(item, levels - 1) for item in value]
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return value
    if type(value) is float:
        return _number(value)
    raise _UnsureError


def _object(value: dict[object, object], levels: int) -> dict[object, object]:
    changed: dict[object, object] = {}
    for key, item in value.items():
        if type(key) is not str or not (key.isascii() or max(key) < _FIRST_SURROGATE):
            raise _UnsureError
        if type(item) not in _ALIKE:
            spelt = _spelt_alike(item, levels)
            if spelt is not item:
                changed[key] = spelt
    return {**value, **changed} if changed else value


def _number(value: float) -> float:
    if not _FIRST_PLAIN <= abs(value) <= MAX_SAFE_INTEGER and value:
        raise _UnsureError
    return int(value) if value.is_integer() else value
