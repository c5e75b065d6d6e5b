"""Words, sentences, numbers, evidence tags and polarity of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_IN_WORDS = frozenset(b"abcdefghijklmnopqrstuvwxyz'-")
_AS_WORDS = bytes(byte if byte in _IN_WORDS else 0x20 for byte in bytes(range(256)).lower())
"""Each ASCII letter as a small one; what is in no word as a space."""
# Patterns that begin with what is rare in a text are looked for many times faster than others.
_SENTENCE_END = re.compile(r" (?<=[.!?] )")
_NUMBER = re.compile(r"\d(?<![A-Za-z\d.]\d)\d*(?:[.,]\d+)*")
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
_POINTS = {**dict.fromkeys(DOWN, -1), **dict.fromkeys(UP, 1)}
_NEGATIONS = frozenset({"no", "not", "never", "without", "hardly", "cannot", "isn't", "won't"})
_REACH = 2
_SHORT = 3


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of `text`, in lower case, in order; each begins with a letter of ASCII."""
    spaced = " " + text.encode("ascii", "replace").translate(_AS_WORDS).decode("ascii")
    found = spaced.split()
    if " '" in spaced or " -" in spaced:
        return [word for one in found if (word := one.lstrip("'-"))]
    return found


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, without their commonest endings."""
    return content_of(words(text))


def content_of(spoken: Iterable[str]) -> frozenset[str]:
    """Return those of the words `spoken` that carry meaning, as `content_words` does."""
    return frozenset({_stem(word) for word in {*spoken} - STOP if len(word) > _SHORT})


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`, trimmed."""
    return sentences_of(one_line(text))


def sentences_of(line: str) -> list[str]:
    """Return the sentences of a text that is one line, as sections and reasons are."""
    return [one for one in _SENTENCE_END.split(line) if one]


def numbers(text: str) -> frozenset[str]:
    """Return the numbers that stand in `text`, as they are written."""
    return frozenset(_NUMBER.findall(text))


def citations(text: str) -> list[tuple[str, str]]:
    """Return the tags in `text`, such as `[DATA:q3]`: kind, and name of the source or nothing."""
    return _TAG.findall(text)


def evidence_tags(text: str) -> frozenset[str]:
    """Return the kinds of evidence that `text` claims by tag."""
    return frozenset(kind for kind, _ in citations(text))


def evidence_ids(text: str) -> frozenset[str]:
    """Return the names of the pieces of evidence that `text` cites."""
    return frozenset(name for _, name in citations(text) if name)


def polarity(spoken: Sequence[str]) -> int:
    """Return how many words point up less how many point down; a negation turns the next two."""
    pointing = [(place, _POINTS[word]) for place, word in enumerate(spoken) if word in _POINTS]
    return sum(_turn_polarity(spoken, place, value) for place, value in pointing)


def _turn_polarity(spoken: Sequence[str], place: int, value: int) -> int:
    before = spoken[max(place - _REACH, 0) : place]
    return -value if any(word in _NEGATIONS for word in before) else value


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORT:
            return word[: -len(ending)]
    return word
