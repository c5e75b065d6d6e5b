"""Strict JSON and RFC 8785 with the standard library alone, for `verify_bundle.py`.

What is refused, and how numbers are written, is in docs/contract/evidence.md §1.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

MAX_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64
WHOLE_BELOW: Final = 1e21
"""ECMAScript writes whole numbers from here on with an exponent."""


class DefectError(Exception):
    """Something in the bundle is not as it must be."""


def parsed(raw: bytes, what: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a strict JSON document; DefectError names `what` is not one."""
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
    except DefectError as error:
        raise DefectError(f"{what}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DefectError(f"{what}: expected JSON, got {error!s:.80}") from error
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH or b"\\u" in raw:
        _refuse_deep_or_broken(value, what)
    return value


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of a JSON value."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode()


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(encode_basestring(value))
    elif isinstance(value, dict):
        mark = "{"
        for key in (
            sorted(value)
            if "".join(value).isascii()
            else sorted(value, key=lambda name: name.encode("utf-16-be"))
        ):
            parts += (mark, encode_basestring(key), ":")
            _write(value[key], parts)
            mark = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        mark = "["
        for item in value:
            parts.append(mark)
            _write(item, parts)
            mark = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, float):
        parts.append(ecmascript(value))
    elif value is None:
        parts.append("null")
    else:  # whole numbers, true, false
        parts.append(_PLAIN.encode(value))


def ecmascript(number: float) -> str:
    """Return a double as ECMAScript writes it."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise DefectError(f"expected a finite number, got {number!r}")
    if not any(digits):
        return "0"
    text, point = "".join(map(str, digits)), len(digits) + exponent
    if -6 < point <= 0:  # noqa: PLR2004 - ECMA-262, Number::toString
        text = "0." + "0" * -point + text
    elif 0 < point <= 21:  # noqa: PLR2004 - the same
        text = text.ljust(point, "0")
        text = text if len(text) == point else f"{text[:point]}.{text[point:]}"
    else:
        text = f"{text[0]}.{text[1:]}".removesuffix(".") + f"e{point - 1:+d}"
    return f"-{text}" if sign else text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise DefectError("expected every member once, got one twice")
    return members


def _whole(literal: str) -> int:
    value = int(literal) if len(literal) <= len(str(-MAX_INTEGER)) else None
    if value is None or abs(value) > MAX_INTEGER:
        raise DefectError(f"expected integers within 2^53 - 1, got {literal[:30]}")
    return value


def _double(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise DefectError(f"expected a double, got {literal[:30]}")
    if MAX_INTEGER < abs(value) < WHOLE_BELOW:
        raise DefectError(f"expected integers within 2^53 - 1, got {literal[:30]}")
    return value


def _no_number(literal: str) -> NoReturn:
    raise DefectError(f"expected a number, got {literal}")


def _refuse_deep_or_broken(value: object, what: str) -> None:
    """Refuse more levels than allowed, and halves of surrogate pairs."""
    level = [value]
    for depth in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += [*item, *item.values()]
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and not item.isascii():
                try:
                    item.encode()
                except UnicodeEncodeError as error:
                    raise DefectError(f"{what}: expected Unicode, got a lone surrogate") from error
        containers = any(isinstance(item, dict | list) for item in level)
        if containers and depth == MAX_DEPTH:
            raise DefectError(f"{what}: expected at most {MAX_DEPTH} levels, got more")
        level = below


_PLAIN = json.JSONEncoder(allow_nan=False)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_whole,
    parse_float=_double,
    parse_constant=_no_number,
)
