"""What a text about code names: words, code-like names, numbers, and what it says was done."""

from __future__ import annotations

import re
from collections.abc import Iterator

from theatre.verification.unified_diff import FileOperation

_STATEMENT = re.compile(r"[.;!?](?:\s+|$)|\n")
_QUOTED = re.compile(r"`([^`\n]{1,300})`")
_START = r"(?:(?<![\w./\-])\.(?=[A-Za-z_]))?[A-Za-z0-9_]"
"""A token's first characters: a dot is one of them where a path begins with it."""
_SPELT = re.compile(rf"{_START}[A-Za-z0-9_.\-/]*(?:\(\))?")
_CODE_LIKE = re.compile(r"\(\)$|_|^\.|[A-Za-z0-9](?:/\.?|\.)[A-Za-z0-9]|[a-z0-9][A-Z]")
_ABBREVIATIONS = frozenset({"e.g", "i.e"})
_NUMBER = re.compile(r"(?<![\w./\-])([0-9]{1,15})(?![\w/\-]|\.[0-9])(?: {1,3}(file|line)s?\b)?")
_TOKEN = re.compile(rf"{_START}[A-Za-z0-9_.\-/]*")
_MAX_TEXT = 20_000
"""How many characters of a text are read."""

_PLACES = frozenset({"from", "in", "inside", "into", "of", "on", "to", "within"})
_ARTICLES = frozenset({"a", "an", "class", "file", "module", "our", "the", "this"})

_OPERATION_BY_STEM = {
    "add": FileOperation.ADDED,
    "introduc": FileOperation.ADDED,
    "creat": FileOperation.ADDED,
    "remov": FileOperation.DELETED,
    "delet": FileOperation.DELETED,
    "drop": FileOperation.DELETED,
    "renam": FileOperation.RENAMED,
    "mov": FileOperation.RENAMED,
    "chang": FileOperation.MODIFIED,
    "modif": FileOperation.MODIFIED,
    "updat": FileOperation.MODIFIED,
}
_OPERATION = re.compile(
    rf"({'|'.join(_OPERATION_BY_STEM)})(?:d|ds|ped|ping|s|es|e|ed|ing|y|ies|ied|ying)?",
    re.IGNORECASE,
)


def split_statements(text: str) -> list[str]:
    """Return the sentences and lines of a text, the first 20,000 characters of it."""
    return [part for part in _STATEMENT.split(text[:_MAX_TEXT]) if part.strip()]


def find_code_names(text: str) -> list[str]:
    """Return what is between backticks or is spelt like code, each name once, in order."""
    text = text[:_MAX_TEXT]
    quoted = [match[1].strip() for match in _QUOTED.finditer(text)]
    spelt = [match[0].rstrip(".-/") for match in _SPELT.finditer(_QUOTED.sub(" ", text))]
    like_code = [name for name in spelt if _CODE_LIKE.search(name)]
    names = [name.removesuffix("()") for name in (*quoted, *like_code)]
    return [name for name in dict.fromkeys(names) if _is_name(name)]


def _is_name(text: str) -> bool:
    return any(c.isalnum() for c in text) and text.casefold() not in _ABBREVIATIONS


def find_numbers(text: str) -> list[int]:
    """Return the whole numbers in a text that are no part of a name or a decimal."""
    return [number for number, _ in find_counts(text)]


def find_counts(text: str) -> list[tuple[int, str]]:
    """Return the same numbers, each with what it counts: `file`, `line`, or an empty text."""
    found = _NUMBER.finditer(_QUOTED.sub(" ", text[:_MAX_TEXT]))
    return [(int(match[1]), match[2] or "") for match in found]


def find_operations(statement: str) -> Iterator[tuple[str, FileOperation | None]]:
    """Yield each token of a statement, with the operation that the statement says about it.

    That is the last one named before it, else the first one after it: in `removes a, adds b` it
    is each its own. None where the statement names no operation, and for what says where: in
    `removes a from b`, b is not removed.
    """
    tokens = [match[0].rstrip(".-") for match in _TOKEN.finditer(statement)]
    said = [_operation(token) for token in tokens]
    current = next((operation for operation in said if operation is not None), None)
    names_a_place = False
    for token, operation in zip(tokens, said, strict=True):
        current = operation or current
        if operation is None:
            yield token, None if names_a_place else current
        names_a_place = token in _PLACES or (names_a_place and token in _ARTICLES)


def _operation(token: str) -> FileOperation | None:
    match = _OPERATION.fullmatch(token)
    return _OPERATION_BY_STEM[match[1].casefold()] if match else None
