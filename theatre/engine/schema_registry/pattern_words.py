"""What the patterns of schemas and models ask for, in words: no message shows a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_SHA256 = "a SHA-256: 64 hexadecimal digits in lower case"
_VERSION = "a version: 7 to 64 hexadecimal digits in lower case"
_NAME = "a name of lower-case letters, digits and underscores that does not begin with a digit"
_NO_CONTROLS = "text without control characters"
_UTC = "a time in UTC, for example 2026-11-23T12:00:00Z"
_SECONDS = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_REPOSITORY = "[A-Za-z0-9][A-Za-z0-9_-]{0,38}/[A-Za-z0-9_.-]{1,100}"
_SEGMENT = "[A-Za-z0-9_][A-Za-z0-9_.-]*"

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "^[a-f0-9]{64}$": _SHA256,
        "^[0-9a-f]{64}$": _SHA256,
        "^[a-f0-9]{7,64}$": _VERSION,
        "^[0-9a-f]{7,64}$": _VERSION,
        "^dataset:[0-9a-f]{64}$": f"dataset: and {_SHA256}",
        "^(?:[0-9a-f]{40}|[0-9a-f]{64})?$": "the name of a commit: 40 or 64 hexadecimal digits",
        "^[a-z_]+_v[0-9]+$": (
            "lower-case letters and underscores that end in a version, for example "
            "product_observer_v1"
        ),
        "^[a-z_]+$": "a name of lower-case letters and underscores",
        "^[a-z_][a-z0-9_]*$": _NAME,
        "^[a-z][a-z0-9_]{0,63}$": (
            "a name of at most 64 lower-case letters, digits and underscores that begins with a "
            "letter"
        ),
        "^[a-z0-9_]{1,40}$": "a name of at most 40 lower-case letters, digits and underscores",
        "^[a-z][a-z0-9_]*@[0-9A-Za-z._-]+$": "a name, @ and a version, for example http@1",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$": (
            "a UUID in lower case"
        ),
        r"^(?:F:[0-9]{1,4}|[A-Za-z_][A-Za-z0-9_.:\-]{0,79})$": (
            "F: and a number, or a name of at most 80 letters, digits and the signs _ . : -"
        ),
        "^[a-z0-9][a-z0-9._-]{0,63}@[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$": (
            "a program, @ and its version, for example inspect_ai@0.3.285"
        ),
        "^[A-Z][A-Z0-9_]{0,60}_API_KEY$": (
            "the name of an environment variable that ends in _API_KEY, for example OPENAI_API_KEY"
        ),
        "^(/([^~/]|~[01])*)*$": "a JSON Pointer, for example /choices/0/text",
        "^[a-z-]+/[0-9]+$": "a name, a slash and a number",
        "^f_[0-9]{2}$": "f_ and two digits, for example f_01",
        "^ground_truth/dataset[.]jsonl#[1-9][0-9]*$": (
            "ground_truth/dataset.jsonl, # and the number of a line"
        ),
        f"^{_SECONDS}([.][0-9]{{1,6}})?Z$": _UTC,
        rf"^{_SECONDS}(\.[0-9]+)?(Z|[+-][0-9]{{2}}:[0-9]{{2}})$": (
            "a time with its offset, for example 2026-11-23T12:00:00Z"
        ),
        r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+\.[^@\s\x00-\x1f]+$": (
            "an address for e-mail, for example ada@example.org"
        ),
        "^[A-Za-z0-9][A-Za-z0-9._-]*$": (
            "letters, digits, dots, hyphens and underscores that begin with a letter or a digit"
        ),
        "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$": (
            "at most 100 letters, digits, dots, hyphens and underscores that begin with none of "
            "dot and hyphen"
        ),
        r"^[^\x00-\x1f]+$": _NO_CONTROLS,
        r"^[^\x00-\x1f\x7f]+$": _NO_CONTROLS,
        r"^[^\x00]*$": "text without the character U+0000",
        r"^[^\x00]+$": "text without the character U+0000",
        r"^[!#-\[\]-~]+$": "printable ASCII characters without quotation marks and backslashes",
        "^[A-Za-z0-9_][A-Za-z0-9_./~^-]{0,99}$": (
            "a range of commits, for example v1.0..v2.0: at most 100 letters, digits and the "
            "signs _ . / ~ ^ -"
        ),
        rf"^(https://github\.com/)?{_REPOSITORY}/?$": (
            "owner/name of a repository on GitHub, or its web address"
        ),
        f"^{_SEGMENT}(/{_SEGMENT}){{0,9}}$": (
            "a path of at most ten names, with slashes between them, without dots at the beginning"
        ),
    }
)
"""Pattern → what fits it. A test fails for a pattern of the schemas or the interface without."""

_OTHER = "text that fits its pattern"
_MISMATCH = "string_pattern_mismatch"


def pattern_words(pattern: str) -> str:
    """Return what a pattern asks for; of one that is not ours, only that it is there."""
    return WORDS.get(pattern, _OTHER)


def model_message(error: Mapping[str, Any]) -> str:
    """Return pydantic's message of one of its errors, but never with a pattern."""
    message = str(error["msg"])
    if error["type"] != _MISMATCH:
        return message.removeprefix("Value error, ")
    _, _, pattern = message.partition("'")
    return f"expected {pattern_words(pattern[:-1])}"


def first_mistake(error: ValidationError) -> str:
    """Return where the first of pydantic's errors is, and its message."""
    first = error.errors(include_url=False)[0]
    return f"{'/'.join(map(str, first['loc']))}: {model_message(first)}"
