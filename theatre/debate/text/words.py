"""Words, sentences, numbers, evidence tags and polarity of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NUMBER = re.compile(r"(?<![A-Za-z\d.])\d+(?:[.,]\d+)*")
_TAG = re.compile(r"\[(DATA|NEWS|MODEL-INTERNAL|ASSUMPTION)(?:[:\s]\s*([A-Za-z0-9_.-]+))?\s*\]")

_STOP_WORDS = (
    "about after again also because been before being both could does from have here however into "
    "just more most much only other over same should since some such than that their them then "
    "there these they this those though through very were what when where which while will with "
    "would your if and the for not but are was its has had can may any all our you"
)
STOP = frozenset(_STOP_WORDS.split())
_UP_WORDS = (
    "rise rises rising rose grow grows growing grew growth gain gains improve improves improving "
    "expand expands expanding expansion beat beats strong stronger strength recover recovers "
    "recovery upside undervalued cheap accelerate accelerates accelerating increase increases "
    "increasing tailwind outperform outperforms demand win wins higher raise raises"
)
UP = frozenset(_UP_WORDS.split())
_DOWN_WORDS = (
    "fall falls falling fell decline declines declining shrink shrinks shrinking lose loses losing "
    "loss losses weak weaker weakness miss misses downside overvalued expensive slow slows slowing "
    "decrease decreases decreasing headwind underperform underperforms glut lower cut cuts erode "
    "erodes eroding collapse collapses compress compresses drop drops"
)
DOWN = frozenset(_DOWN_WORDS.split())
_NEGATIONS = frozenset({"no", "not", "never", "without", "hardly", "cannot", "isn't", "won't"})
_REACH = 2
_SHORT = 3


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of `text`, in lower case, in order."""
    return [word.lower() for word in _WORD.findall(text)]


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, without their commonest endings."""
    return frozenset(_stem(word) for word in words(text) if len(word) > _SHORT and word not in STOP)


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`, trimmed."""
    return [one for one in _SENTENCE_END.split(one_line(text)) if one]


def numbers(text: str) -> frozenset[str]:
    """Return the numbers that stand in `text`, as they are written."""
    return frozenset(_NUMBER.findall(text))


def evidence_tags(text: str) -> frozenset[str]:
    """Return the kinds of evidence that `text` claims by tag, such as `[DATA:q3]`."""
    return frozenset(kind for kind, _ in _TAG.findall(text))


def evidence_ids(text: str) -> frozenset[str]:
    """Return the names of the pieces of evidence that `text` cites."""
    return frozenset(name for _, name in _TAG.findall(text) if name)


def polarity(text: str) -> int:
    """Return how many words point up less how many point down; a negation turns the next two."""
    spoken = words(text)
    return sum(_turned(spoken, place, value) for place, value in _pointing(spoken))


def _pointing(spoken: list[str]) -> Iterator[tuple[int, int]]:
    for place, word in enumerate(spoken):
        if word in UP:
            yield place, 1
        elif word in DOWN:
            yield place, -1


def _turned(spoken: list[str], place: int, value: int) -> int:
    before = spoken[max(place - _REACH, 0) : place]
    return -value if any(word in _NEGATIONS for word in before) else value


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORT:
            return word[: -len(ending)]
    return word
