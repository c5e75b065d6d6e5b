"""Canonical JSON (RFC 8785), and the hashes that are taken over it."""

from __future__ import annotations

import hashlib

import rfc8785

from theatre.engine.canonical_json.quick_form import fast_canonical_bytes
from theatre.engine.errors import CanonicalisationError


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
