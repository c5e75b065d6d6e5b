"""What a construct said, made fit for a record: cleaned, and cut to a bounded length."""

from __future__ import annotations

import re
from itertools import accumulate

MAX_ANSWER_BYTES = 1024 * 1024
MAX_ERROR_DETAIL = 2000
MAX_STDERR = 4000
_INVISIBLE = re.compile(
    # C0 and C1 but tab and line feed, zero-width, bidi and line separators, tags. A table of our
    # own: `str.isprintable` answers by the Unicode version of the interpreter.
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)


def clean_detail(text: str, *, limit: int = MAX_ERROR_DETAIL) -> str:
    """Return `text` without invisible characters and lone surrogates, cut to `limit` characters."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub("", readable)[:limit]


def cut_raw(raw: bytes) -> str:
    """Return rejected bytes as text, cut so that it takes at most the answer limit as JSON.

    NUL bytes are six characters each in JSON: a cut by bytes would let a construct write
    records that are too large to be read back.
    """
    text = raw[:MAX_ANSWER_BYTES].decode("utf-8", "backslashreplace")
    lengths = accumulate(_escaped_length(character) for character in text)
    kept = sum(1 for length in lengths if length <= MAX_ANSWER_BYTES)
    return text[:kept]


def _escaped_length(character: str) -> int:
    """Return the most characters that JSON may write for this one."""
    if character < " ":
        return len("\\u0000")
    return 2 if character in '"\\' else 1
