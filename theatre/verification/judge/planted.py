"""Claims about a change that are true, or false, by construction from its diff.

They are made of the claims that stand next to them, so that their form is theirs: a claim that says
no more than "adds NAME to PATH" is a frame, and takes another name of the diff; in any other a name
is put in the place of one of its own that occurs nowhere in the change.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeVar

from theatre.verification.change_facts import (
    WORD,
    ChangeFacts,
    change_facts,
    definitions,
    find_code_names,
    find_counts,
    operation_of,
)
from theatre.verification.unified_diff import FileOperation

SHORTEST_SENTENCE = 8
"""In words; those of the labelled set have 12 to 35."""

MAX_NAME = 200
"""Longer paths are not shown whole to a judge."""

_ItemT = TypeVar("_ItemT")
_ADDED, _DELETED = FileOperation.ADDED, FileOperation.DELETED
_OPPOSITE: Final = {_ADDED: _DELETED, _DELETED: _ADDED}
_NAME = r"[\w./\-]*\w"
_FRAME = re.compile(
    rf"(?P<verb>[A-Z][a-z]+)(?P<noun> (?:the )?(?:(?:file|function|class|method|module) )?)"
    rf"(?P<quote>`?)(?P<name>{_NAME})(?P=quote)"
    rf"(?:(?P<at> (?:to|from|in|of) (?:the file )?`?)(?P<path>{_NAME})(?P<behind>`?))?(?P<end>\.?)"
)
_NEGATED = re.compile(
    r"\b(?:not?|never|none|nothing|neither|nor|without|un\w+|instead|rather|unlike|except|only|"
    r"but|still|keeps?|leaves?|left|stays?|remains?|other|longer|alone|cannot|missing|fails?|lacks?)\b"
    r"|n't\b",
    re.IGNORECASE,
)
"""What may make a claim true in which a name is exchanged."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_POOL_WORD = re.compile(r"[a-z]{4,12}")
_TRIES = 30
_MORE = 5


class Lots:
    """Numbers that follow from a seed: all who have it draw the same."""

    def __init__(self, *seed: str) -> None:
        self._seed = "\n".join(seed)
        self._drawn = 0

    def below(self, limit: int) -> int:
        """Return a number from 0 to below `limit`, all as likely but for one in 2^200."""
        self._drawn += 1
        drawn = hashlib.sha256(f"{self._drawn}\n{self._seed}".encode()).digest()
        return int.from_bytes(drawn, "big") % limit

    def shuffled(self, items: Iterable[_ItemT]) -> list[_ItemT]:
        """Return the items in an order by lot."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]


PLANTED: Final = "planted"


@dataclass(frozen=True, slots=True)
class ControlClaim:
    """A claim whose truth is known, how it was made, and about which change.

    `change_id` and `claim_id` are empty for one about the episode's own change.
    """

    text: str
    is_true: bool
    kind: str
    source: str = PLANTED
    change_id: str = ""
    claim_id: str = ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A claim that says of a name, perhaps at a path, what is done with it: and no more."""

    operation: FileOperation
    match: re.Match[str]

    @property
    def has_path(self) -> bool:
        return self.match["path"] is not None

    def takes(self, fact: "_Fact") -> bool:
        return fact.operation is self.operation and (fact.path is not None) is self.has_path

    def said(self, fact: "_Fact") -> str:
        return self.of(fact.name, fact.path)

    def of(self, name: str, path: str | None) -> str:
        given = self.match
        text = f"{given['verb']}{given['noun']}{given['quote']}{name}{given['quote']}"
        return text + (f"{given['at']}{path}{given['behind']}" if path else "") + given["end"]


@dataclass(frozen=True, slots=True)
class _Fact:
    operation: FileOperation
    name: str
    path: str | None


class PlantedClaims:
    """What can be planted in one change among the claims `texts`, by lot."""

    def __init__(self, diff: str, texts: Sequence[str], lots: Lots) -> None:
        self._diff = diff.casefold()
        self._changed = change_facts(diff)
        self._texts = texts
        self._taken = {_folded(text) for text in texts}
        self._lots = lots
        self._facts = sorted(
            {*_facts(self._changed)}, key=lambda one: (one.operation, one.name, one.path or "")
        )

    def plant(self, *, is_true: bool, like: str) -> ControlClaim | None:
        """Return a claim of that truth which none before says; None where none can be made.

        It has the form of the claim `like`, else of another one.
        """
        for text in (like, *self._lots.shuffled(self._texts)):
            frame = _frame_of(text)
            if frame is not None:
                made = self._true(frame) if is_true else self._false(frame)
            else:
                made = iter(()) if is_true else self._edited(text)
            for claim in made:
                if _folded(claim.text) not in self._taken:
                    self._taken.add(_folded(claim.text))
                    return claim
        return None

    def _true(self, frame: _Frame) -> Iterator[ControlClaim]:
        for fact in self._lots.shuffled(filter(frame.takes, self._facts)):
            yield ControlClaim(frame.said(fact), is_true=True, kind="fact")

    def _false(self, frame: _Frame) -> Iterator[ControlClaim]:
        for way in self._lots.shuffled(
            (self._swapped_operation, self._swapped_path, self._invented)
        ):
            yield from way(frame)

    def _swapped_operation(self, frame: _Frame) -> Iterator[ControlClaim]:
        """Say of what was added that it was removed, or the other way round."""
        for fact in self._lots.shuffled(self._facts):
            is_opposite = fact.operation is _OPPOSITE.get(frame.operation)
            if is_opposite and (fact.path is not None) is frame.has_path:
                text = frame.of(fact.name, fact.path)
                yield ControlClaim(text, is_true=False, kind="swapped_operation")

    def _swapped_path(self, frame: _Frame) -> Iterator[ControlClaim]:
        """Say of what was done in one file that it was done in another one, which lacks it."""
        for fact in self._lots.shuffled(self._facts):
            if fact.path is None or not frame.takes(fact):
                continue
            for path, words in self._lots.shuffled(self._words_by_path.items()):
                if fact.name not in words:
                    text = frame.of(fact.name, path)
                    yield ControlClaim(text, is_true=False, kind="swapped_path")

    def _invented(self, frame: _Frame) -> Iterator[ControlClaim]:
        """Say it of a name that is nowhere in the change."""
        facts = [one for one in self._facts if (one.path is not None) is frame.has_path]
        exact = [*filter(frame.takes, facts)]
        for fact in self._lots.shuffled(exact or facts):
            name = self._name_like(fact.name)
            if name is not None:
                text = frame.of(name, fact.path)
                yield ControlClaim(text, is_true=False, kind="invented_name")

    def _edited(self, text: str) -> Iterator[ControlClaim]:
        """Exchange a name, or a count of files or lines, in a claim that denies nothing."""
        if _NEGATED.search(text):
            return
        for name in self._lots.shuffled(find_code_names(text)):
            other = self._name_like(name) if len(name) <= MAX_NAME else None
            if other is not None:
                edited = other.join(re.split(rf"(?<!\w){re.escape(name)}(?!\w)", text))
                if edited != text:
                    yield ControlClaim(edited, is_true=False, kind="invented_name")
        most = {"file": len(self._changed.files)}
        most["line"] = self._changed.lines_added + self._changed.lines_removed
        for number, unit in find_counts(text):
            if unit:
                # More than there are at all: it counts some of them, whichever it means.
                wrong = str(most[unit] + 1 + self._lots.below(_MORE))
                edited = re.sub(rf"(?<![\w./\-]){number}(?= {{1,3}}{unit})", wrong, text)
                yield ControlClaim(edited, is_true=False, kind="wrong_number")

    def _name_like(self, name: str) -> str | None:
        """Return a name of the same form, of the change's own words, that is nowhere in it."""
        folder, slash, last = name.rpartition("/")
        stem, dot, ending = last.partition(".")
        parts = [(part.start(), part[0]) for part in _PARTS.finditer(stem) if part[0].isalpha()]
        for _ in range(_TRIES if parts and self._pool else 0):
            at, part = parts[self._lots.below(len(parts))]
            word = self._pool[self._lots.below(len(self._pool))]
            shaped = word.upper() if part.isupper() else word
            shaped = word.capitalize() if part.istitle() else shaped
            found = f"{folder}{slash}{stem[:at]}{shaped}{stem[at + len(part) :]}{dot}{ending}"
            is_there = found.casefold() in self._diff or any(found in text for text in self._texts)
            # A word twice in a name would be seen.
            if word not in stem.casefold() and not is_there and len(found) <= MAX_NAME:
                return found
        return None

    @cached_property
    def _words_by_path(self) -> dict[str, frozenset[str]]:
        return {
            file.path: frozenset(
                word
                for lines in (file.added, file.removed, file.context, (file.path,))
                for line in lines
                for word in WORD.findall(line)
            )
            for file in self._changed.files
            if len(file.path) <= MAX_NAME
        }

    @cached_property
    def _pool(self) -> list[str]:
        names = [name for text in self._texts for name in find_code_names(text)]
        names += [fact.name for fact in self._facts]
        parts = {part.casefold() for name in names for part in _PARTS.findall(name)}
        words = sorted(part for part in parts if _POOL_WORD.fullmatch(part))
        return words or sorted(filter(_POOL_WORD.fullmatch, self._changed.added_words))


def is_sentence(text: str) -> bool:
    """Return whether a claim is about as long as those that people write, and is no frame."""
    return len(text.split()) >= SHORTEST_SENTENCE and _frame_of(text) is None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


@lru_cache(maxsize=1024)
def _frame_of(text: str) -> _Frame | None:
    match = _FRAME.fullmatch(text)
    operation = None if match is None else operation_of(match["verb"])
    # "Renames a to b" is no place: both are names.
    if match is None or operation is None or (operation is FileOperation.RENAMED and match["path"]):
        return None
    return _Frame(operation, match)


def _facts(changed: ChangeFacts) -> Iterator[_Fact]:
    """Yield what the diff shows beyond doubt: of a name that is new, or gone, no line has it else.

    A file is named by its path, a definition by its name and the file.
    """
    for file in changed.files:
        if len(file.path) > MAX_NAME:
            continue
        yield _Fact(file.operation, file.path, None)
        for one in definitions(file):
            elsewhere = {
                _ADDED: changed.removed_words[one.subject],
                _DELETED: changed.added_words[one.subject],
            }.get(one.operation, 0)
            certain = one.operation is FileOperation.MODIFIED or (
                one.subject not in changed.context_words
            )
            if certain and not elsewhere:
                yield _Fact(one.operation, one.subject, file.path)
