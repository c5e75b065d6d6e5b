"""The strict parser: the only way in for a document that will be hashed or verified."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn

from theatre.engine.canonical_json.boundaries import (
    MAX_DEPTH,
    MAX_SAFE_INTEGER,
    JsonObject,
    JsonValue,
    json_type,
)
from theatre.engine.canonical_json.writing import NotCanonical, fast_canonical_value
from theatre.engine.errors import ParseError

DEFAULT_MAX_BYTES = 256 * 1024 * 1024

_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = [(mark in b"[{") - (mark in b"]}") for mark in range(256)]
_FIRST_WITH_EXPONENT = 1e21
"""ECMAScript writes whole numbers from here on as 1e+21, below as plain digits."""

_LONGEST_READ_TWICE = 64 * 1024
_FIRST_NAMES = 256

_UTF8_BOM = b"\xef\xbb\xbf"


def parse_json(
    data: bytes, *, max_bytes: int = DEFAULT_MAX_BYTES, max_depth: int = MAX_DEPTH
) -> JsonValue:
    """Parse a document that will be hashed or verified.

    `max_bytes` and `max_depth` bound size and nesting. Raises ParseError, with a stable
    `reason`, for: more bytes or levels than allowed, a BOM, invalid UTF-8, bad syntax,
    duplicate keys, NaN or Infinity, numbers that overflow a double, integers beyond
    ±(2^53-1) however spelt (1e17 too, but not 1e21 and above: RFC 8785 writes those with an
    exponent), and lone surrogates. So whatever it accepts, it accepts again in canonical form.
    """
    if len(data) > max_bytes:
        raise ParseError(f"expected at most {max_bytes} bytes, got {len(data)}", reason="too-large")
    canonical = read_canonical(data, max_depth=max_depth)
    if not isinstance(canonical, NotCanonical):
        return canonical
    if data.startswith(_UTF8_BOM):
        raise ParseError("expected plain UTF-8, got a byte order mark", reason="byte-order-mark")
    text = _decode(data)
    _refuse_deep_nesting(data, max_depth)
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ParseError(
            f"expected JSON, got something else at line {error.lineno} column {error.colno}: "
            f"{error.msg}"
        ) from error
    if "\\u" in text:  # UTF-8 has no surrogates: only an escape can write half a pair.
        _refuse_surrogates(value)
    return value


def read_canonical(data: bytes, *, max_depth: int = MAX_DEPTH) -> JsonValue | NotCanonical:
    """Return the value whose canonical form `data` is, a line feed behind it or not.

    It is the value that the strict parser finds: what orjson reads and RFC 8785 writes as these
    very bytes has every key once, and no number or text that the bytes do not say. NOT_CANONICAL
    says nothing about them but that the strict parser must decide.
    """
    # Most other spellings have a space early on: they cost no second look. Nor does a long
    # document, which a stranger may have made to be read twice.
    is_likely = len(data) <= _LONGEST_READ_TWICE and b'": ' not in data[:_FIRST_NAMES]
    value = fast_canonical_value(data) if is_likely else NotCanonical.NOT_CANONICAL
    if not isinstance(value, NotCanonical):
        _refuse_deep_nesting(data, max_depth)
    return value


def parse_object(
    data: bytes, *, max_bytes: int = DEFAULT_MAX_BYTES, max_depth: int = MAX_DEPTH
) -> JsonObject:
    """Parse like `parse_json` and require the document to be an object (reason `not-object`)."""
    value = parse_json(data, max_bytes=max_bytes, max_depth=max_depth)
    if not isinstance(value, dict):
        raise ParseError(f"expected a JSON object, got {json_type(value)}", reason="not-object")
    return value


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(
            f"expected UTF-8, got an invalid byte at offset {error.start}", reason="not-utf8"
        ) from error


def _refuse_deep_nesting(data: bytes, max_depth: int) -> None:
    """Count brackets outside strings before the recursive parser sees them.

    Raises ParseError (`too-deep`). Runs only where there are enough brackets to matter, in passes
    over all of the bytes, each many times faster than a look at each of them.
    """
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return
    # Without escapes every quote begins or ends a string; two neighbours undo each other.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = plain.translate(None, delete=_NO_STRUCTURE).replace(b'""', b"")
    outside = b"".join(marks.split(b'"')[::2])
    if max(accumulate(map(_STEPS.__getitem__, outside)), default=0) > max_depth:
        raise ParseError(
            f"expected at most {max_depth} levels of nesting, got more", reason="too-deep"
        )


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        duplicate = counts.most_common(1)[0][0]
        raise ParseError(
            f"expected unique keys, got {duplicate[:60]!r} twice", reason="duplicate-key"
        )
    return result


def _safe_integer(literal: str) -> int | float:
    if len(literal) < len("9007199254740991"):
        return int(literal)
    # 18 characters always exceed 2^53; int() of a huge literal would also cost quadratic time.
    value = int(literal) if len(literal) <= len("-9007199254740991") else None
    if value is None or abs(value) > MAX_SAFE_INTEGER:
        raise ParseError(
            f"expected integers within ±(2^53-1), got {literal[:24]}", reason="unsafe-integer"
        )
    return value


def _safe_float(literal: str) -> float:
    value = float(literal)
    if MAX_SAFE_INTEGER < abs(value) < _FIRST_WITH_EXPONENT:
        # Its canonical form is an integer literal, which `_safe_integer` refuses to read back.
        raise ParseError(
            f"expected integers within ±(2^53-1), got {literal[:24]}", reason="unsafe-integer"
        )
    if math.isinf(value):
        raise ParseError(
            f"expected numbers that a double holds, got {literal[:24]}", reason="number-overflow"
        )
    return value


def _refuse_constant(literal: str) -> NoReturn:
    raise ParseError(f"expected finite numbers, got {literal}", reason="non-finite")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_object,
    parse_int=_safe_integer,
    parse_float=_safe_float,
    parse_constant=_refuse_constant,
)


def _refuse_surrogates(value: JsonValue) -> None:
    """Walk every string (keys too); raise ParseError (`lone-surrogate`) for half a pair."""
    stack: list[object] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if not item.isascii():
                _refuse_surrogate_text(item)
        elif isinstance(item, Mapping):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, Sequence):
            stack.extend(item)


def _refuse_surrogate_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParseError(
            "expected Unicode text, got a lone surrogate", reason="lone-surrogate"
        ) from error
