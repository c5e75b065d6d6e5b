"""What a diff says for certain: names that come and go, operations on files, counts.

Nothing here understands a language: a definition is a line that looks like one. Other code may be
described just as truthfully by what is not found here (docs/verification.md).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from theatre.verification.unified_diff import FileChange, FileOperation, read_diff

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+")
_DEFINITION = re.compile(
    r"\s{0,40}(?:(?:export|default|pub|public|private|protected|static|async|final|abstract)\s{1,4})"
    r"{0,4}(?:def|class|function|func|fn|struct|enum|interface|trait|type)\s{1,4}"
    r"(?:\([^()]{0,80}\)\s{0,4})?([A-Za-z_][A-Za-z0-9_]{2,100})"
)
MAX_IMPORTANT = 8
"""How many changes of one record are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportantChange:
    """One change that a summary should name.

    `subject` is a definition's name, or the path of a file; `path` where it is. `operation` is
    one of added, deleted, renamed and modified.
    """

    operation: FileOperation
    subject: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """A diff as it can be looked up: files, lines, how often each word is in which lines.

    `lines` are all of them, without marks and without white space around them.
    """

    files: tuple[FileChange, ...]
    added_words: Counter[str]
    removed_words: Counter[str]
    context_words: frozenset[str]
    lines: frozenset[str]

    @property
    def lines_added(self) -> int:
        """Return how many lines the diff adds."""
        return sum(len(file.added) for file in self.files)

    @property
    def lines_removed(self) -> int:
        """Return how many lines the diff takes out."""
        return sum(len(file.removed) for file in self.files)


@lru_cache(maxsize=2)
def change_facts(diff: str) -> ChangeFacts:
    """Return the facts of a unified diff; the last two are kept, one diff is asked for often."""
    files = read_diff(diff)
    return ChangeFacts(
        files=files,
        added_words=Counter(word for file in files for word in _words(file.added)),
        removed_words=Counter(word for file in files for word in _words(file.removed)),
        context_words=frozenset(word for file in files for word in _words(file.context)),
        lines=frozenset(
            line.strip() for file in files for line in (*file.added, *file.removed, *file.context)
        ),
    )


def definitions(file: FileChange) -> Iterator[ImportantChange]:
    """Yield the definitions that a file's changed lines add, take out and alter.

    One that is both in added and in removed lines is altered, unless the lines are the same: it
    was moved. Names that begin with `_` are not for others, and are left out.
    """
    added, removed = _find_definitions(file.added), _find_definitions(file.removed)
    for name in sorted(added.keys() | removed.keys()):
        if name not in added:
            operation = FileOperation.DELETED
        elif name not in removed:
            operation = FileOperation.ADDED
        elif added[name] == removed[name]:
            continue
        else:
            operation = FileOperation.MODIFIED
        yield ImportantChange(operation=operation, subject=name, path=file.path)


def important_changes(facts: ChangeFacts) -> tuple[ImportantChange, ...]:
    """Return at most MAX_IMPORTANT changes, the most important first, by a stated rule.

    Definitions taken out; definitions altered; files deleted; files renamed; definitions added;
    files added; other files modified. Within each, what is no test comes before tests, then
    files with more changed lines, then paths and names in order of code points. A definition
    that goes from one file to another is altered, not taken out.
    """
    found = {
        (change.subject, change.operation, change.path): change
        for file in facts.files
        for change in (*_join_moves(definitions(file), facts), *_file_changes(file))
    }
    size = {file.path: len(file.added) + len(file.removed) for file in facts.files}
    ranked = sorted(found.values(), key=lambda change: _rank(change, size[change.path]))
    return tuple(ranked[:MAX_IMPORTANT])


def _join_moves(
    changes: Iterable[ImportantChange], facts: ChangeFacts
) -> Iterator[ImportantChange]:
    for change in changes:
        came_back = facts.added_words[change.subject] > 0
        went = facts.removed_words[change.subject] > 0
        if change.operation is FileOperation.DELETED and came_back:
            continue
        if change.operation is FileOperation.ADDED and went:
            continue
        yield change


def _file_changes(file: FileChange) -> Iterator[ImportantChange]:
    if file.operation is FileOperation.MODIFIED and next(definitions(file), None) is not None:
        return
    yield ImportantChange(operation=file.operation, subject=file.path, path=file.path)


def _rank(change: ImportantChange, size: int) -> tuple[int, bool, int, str, str]:
    of_definition = change.subject != change.path
    order = (
        (True, FileOperation.DELETED),
        (True, FileOperation.MODIFIED),
        (False, FileOperation.DELETED),
        (False, FileOperation.RENAMED),
        (True, FileOperation.ADDED),
        (False, FileOperation.ADDED),
        (False, FileOperation.MODIFIED),
    )
    place = order.index((of_definition, change.operation))
    is_test = "test" in change.path.casefold()
    return place, is_test, -size, change.path, change.subject


def _find_definitions(lines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _DEFINITION.match(line)
        if match and not match[1].startswith("_"):
            found.setdefault(match[1], []).append(line.strip())
    return found


def _words(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from WORD.findall(line)


# What a text about code names: words, code-like names, numbers, and what it says was done.


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
    return [
        name
        for name in dict.fromkeys(names)
        if any(sign.isalnum() for sign in name) and name.casefold() not in _ABBREVIATIONS
    ]


def find_numbers(text: str) -> list[int]:
    """Return the whole numbers in a text that are no part of a name or a decimal."""
    return [number for number, _ in find_counts(text)]


def find_counts(text: str) -> list[tuple[int, str]]:
    """Return the same numbers, each with what it counts: `file`, `line`, or an empty text."""
    found = _NUMBER.finditer(_QUOTED.sub(" ", text[:_MAX_TEXT]))
    return [(int(match[1]), match[2] or "") for match in found]


def operation_of(word: str) -> FileOperation | None:
    """Return what a verb says was done; None where it is none of those that are known."""
    match = _OPERATION.fullmatch(word)
    return _OPERATION_BY_STEM[match[1].casefold()] if match else None


def find_operations(statement: str) -> Iterator[tuple[str, FileOperation | None]]:
    """Yield each token of a statement, with the operation that the statement says about it.

    That is the last one named before it, else the first one after it: in `removes a, adds b` it
    is each its own. None where the statement names no operation, and for what says where: in
    `removes a from b`, b is not removed.
    """
    tokens = [match[0].rstrip(".-") for match in _TOKEN.finditer(statement)]
    said = [operation_of(token) for token in tokens]
    current = next((operation for operation in said if operation is not None), None)
    names_a_place = False
    for token, operation in zip(tokens, said, strict=True):
        current = operation or current
        if operation is None:
            yield token, None if names_a_place else current
        names_a_place = token in _PLACES or (names_a_place and token in _ARTICLES)
