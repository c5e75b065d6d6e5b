"""Canonical JSON, profile `axion8`: sorted keys, no spaces, at most eight decimals.

Source: docs/requirements.md R102. It is not RFC 8785: a number is rounded half
to even at the eighth decimal and never has an exponent, and keys are sorted by code point. So
`1e-09` and `-0.0` are `0`. The way in is the engine's strict parser.
"""

from __future__ import annotations

import json
import math

from theatre.engine.canonical_json import MAX_DEPTH, MAX_SAFE_INTEGER
from theatre.engine.errors import CanonicalisationError

PROFILE = "axion8"
DECIMALS = 8

_encode_text = json.JSONEncoder(ensure_ascii=False).encode


def canonical_bytes(value: object) -> bytes:
    """Return the `axion8` form of `value` as UTF-8.

    Raises CanonicalisationError for NaN, infinities, integers beyond ±(2^53-1), lone
    surrogates, keys that are not text, more than 64 levels, and types that are not JSON.
    """
    try:
        return _write(value, MAX_DEPTH).encode("utf-8")
    except UnicodeEncodeError as error:
        raise CanonicalisationError("expected Unicode text, got a lone surrogate") from error


def canonical_line(value: object) -> bytes:
    """Return the canonical bytes of `value` and one LF."""
    return canonical_bytes(value) + b"\n"


def format_number(value: float) -> str:
    """Return how `axion8` spells `value`; raises CanonicalisationError where it cannot."""
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise CanonicalisationError("expected integers within ±(2^53-1), got a larger one")
        return str(value)
    if not math.isfinite(value) or abs(value) > MAX_SAFE_INTEGER:
        raise CanonicalisationError(f"expected a finite number within ±(2^53-1), got {value!r}")
    text = f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _write(value: object, levels: int) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _encode_text(value)
    if isinstance(value, int | float):
        return format_number(value)
    if not levels:
        raise CanonicalisationError(f"expected at most {MAX_DEPTH} levels of nesting, got more")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise CanonicalisationError("expected keys of text, got another type")
        members = [f"{_encode_text(key)}:{_write(value[key], levels - 1)}" for key in sorted(value)]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_write(item, levels - 1) for item in value) + "]"
    raise CanonicalisationError(f"expected a JSON value, got a {type(value).__name__}")
