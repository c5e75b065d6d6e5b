"""Reading what agents wrote: sections, reasons, evidence, polarity, causal rungs.

Everything here is a structural proxy: it sees form and words, never whether a claim is true.
White space and the order of sections change nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# The rung of Pearl's ladder that a sentence speaks from, by its words.


NONE, ASSOCIATION, INTERVENTION, COUNTERFACTUAL = range(4)
NAMES = (None, "L1", "L2", "L3")

_COUNTERFACTUAL_WORDS = re.compile(
    r"\b(?:(?:would|could|might) (?:not )?have|wouldn't have|couldn't have|but for)\b",
    re.IGNORECASE,
)
_CAUSAL_WORDS = re.compile(
    r"\b(?:causes?|caused|drives?|drove|leads? to|led to|because|results? in|forces?|forced"
    r"|pushes|due to)\b",
    re.IGNORECASE,
)
_ASSOCIATIVE_WORDS = re.compile(
    r"\b(?:correlat\w+|associat\w+|tends? to|coincid\w+|alongside|together with|moves? with"
    r"|typically|goes with|follows)\b",
    re.IGNORECASE,
)
# Each match of a pattern holds one of its signs. Without them t3 takes 1.6 times as long, and
# misses the aim of 2 s for 10,000 turns (docs/debate.md).
_COUNTERFACTUAL_SIGNS = ("have", "but for")
_CAUSAL_SIGNS = ("cause", "dr", "le", "result", "force", "push", "due to")
_ASSOCIATIVE_SIGNS = (
    "correlat",
    "associat",
    "tend",
    "coincid",
    "alongside",
    "together",
    "move",
    "typically",
    "goes with",
    "follows",
)
_CONDITION_WORDS = re.compile(r"\bif\b", re.IGNORECASE)
_CONSEQUENCE_WORDS = re.compile(r"\b(?:then|will|would)\b", re.IGNORECASE)


def rung_of(sentence: str) -> int:
    """Return the rung of one sentence, NONE where its words show none."""
    plain = sentence.lower() if sentence.isascii() else None
    if _holds(plain, _COUNTERFACTUAL_SIGNS) and _COUNTERFACTUAL_WORDS.search(sentence):
        return COUNTERFACTUAL
    condition = _CONDITION_WORDS.search(sentence)
    if condition and _CONSEQUENCE_WORDS.search(sentence, condition.end()):
        return INTERVENTION
    if _holds(plain, _CAUSAL_SIGNS) and _CAUSAL_WORDS.search(sentence):
        return INTERVENTION
    is_associative = _holds(plain, _ASSOCIATIVE_SIGNS) and _ASSOCIATIVE_WORDS.search(sentence)
    return ASSOCIATION if is_associative else NONE


def highest(spoken: Iterable[str]) -> int:
    """Return the highest rung of several sentences."""
    return max((rung_of(sentence) for sentence in spoken), default=NONE)


def _holds(plain: str | None, signs: Iterable[str]) -> bool:
    """Return whether a sign is there, or, beyond ASCII, where letters have more forms, may be."""
    if plain is None:
        return True
    for sign in signs:  # noqa: SIM110 - `any` takes thrice as long here
        if sign in plain:
            return True
    return False


# Words, sentences, numbers, evidence tags and polarity of a text.


_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")
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
_POINTS = {**dict.fromkeys(DOWN, -1), **dict.fromkeys(UP, 1)}
_NEGATIONS = frozenset({"no", "not", "never", "without", "hardly", "cannot", "isn't", "won't"})
_REACH = 2
_SHORT = 3


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of `text`, in lower case, in order; each begins with a letter of ASCII."""
    return [word.lower() for word in _WORD.findall(text)]


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
    found = 0
    for place, word in enumerate(spoken):
        before = spoken[max(place - _REACH, 0) : place]
        value = _POINTS.get(word, 0)
        found += value if _NEGATIONS.isdisjoint(before) else -value
    return found


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORT:
            return word[: -len(ending)]
    return word


# The sections of a structured turn. A turn without claim and reasons is unstructured: None.


_HEADING = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]*(?:\d+[.)][ \t]*)?|\d+[.)][ \t]*)"
    r"(CLAIM|DECISION|REASON[ \t]*\d+|COUNTERARGUMENT|REBUTTAL|ASSUMPTIONS|EPISTEMIC[ \t]+CLARITY"
    r"|WHAT[ \t]+WOULD[ \t]+CHANGE[ \t]+MY[ \t]+MIND|FINAL[ \t]+CONSISTENCY[ \t]+CHECK)\b[ \t]*:?"
)
_LABEL = re.compile(r"\b(Mechanism|Evidence|Falsifier|Falsified if):")
_FALSIFIERS = frozenset({"Falsifier", "Falsified if"})
_OPENING = ""
REASON, CHANGE_OF_MIND = "REASON", "WHAT WOULD CHANGE MY MIND"
ALIKE = 0.8
"""Reasons that share this part of their words are one reason said twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: what is argued, on one line; what would prove it wrong, None if it is unsaid."""

    text: str
    falsifier: str | None
    words: tuple[str, ...]
    """The words of `text`, read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredTurn:
    """The sections of a turn by name, on one line each; its reasons, each counted once."""

    opening: str
    """What is before the first heading."""
    sections: Mapping[str, str]
    reasons: tuple[Reason, ...]

    def section(self, name: str) -> str:
        """Return a section's text; empty where there is none."""
        return self.sections.get(name, "")

    @property
    def asserted(self) -> list[str]:
        """Return what is said in earnest: all but what is named as a condition to think again."""
        apart = (REASON, CHANGE_OF_MIND)
        said = [text for name, text in self.sections.items() if not name.startswith(apart)]
        return [self.opening, *said, *(reason.text for reason in self.reasons)]

    @property
    def falsifiers(self) -> int:
        """Return how many things are named that would change this mind."""
        own = sum(1 for reason in self.reasons if reason.falsifier)
        return own + len(sentences_of(self.section(CHANGE_OF_MIND)))


def read_structure(content: str) -> StructuredTurn | None:
    """Return the structure of `content`; None without a claim or decision and a reason."""
    bodies = _bodies(content)
    (opening,) = bodies.pop(_OPENING)
    reasons = (name for name in bodies if name.startswith(REASON))
    # By length first: REASON 10 comes behind REASON 9.
    names = sorted(reasons, key=lambda name: (len(name), name))
    if not names or not {"CLAIM", "DECISION"} & set(bodies):
        return None
    return StructuredTurn(
        opening=opening,
        sections={name: " ".join(filter(None, said)) for name, said in bodies.items()},
        reasons=_distinct([_reason(bodies[name]) for name in names]),
    )


def _bodies(content: str) -> dict[str, list[str]]:
    """Return the bodies of each heading by its name, each on one line, and the opening."""
    said: list[tuple[str, list[str]]] = [(_OPENING, [])]
    for line in content.split("\n"):
        heading = _HEADING.match(line)
        if heading is None:
            said[-1][1].append(line)
        else:
            said.append((one_line(heading.group(1)), [line[heading.end() :]]))
    bodies: dict[str, list[str]] = {}
    for name, lines in said:
        bodies.setdefault(name, []).append(one_line(" ".join(lines)))
    return bodies


def _reason(bodies: list[str]) -> Reason:
    """Read what is under one heading; a label ends with the body that it is in."""
    kept: list[str] = []
    falsifiers: list[str] = []
    for body in bodies:
        before, *labelled = _LABEL.split(body)
        kept.append(before.strip())
        for label, text in zip(labelled[::2], labelled[1::2], strict=True):
            (falsifiers if label in _FALSIFIERS else kept).append(text.strip())
    text = " ".join(filter(None, kept))
    return Reason(
        text=text, falsifier=" ".join(filter(None, falsifiers)) or None, words=tuple(words(text))
    )


def _distinct(reasons: list[Reason]) -> tuple[Reason, ...]:
    kept: list[tuple[Reason, frozenset[str]]] = []
    for reason in reasons:
        said = content_of(reason.words)
        if not any(_overlap(said, other) >= ALIKE for _, other in kept):
            kept.append((reason, said))
    return tuple(reason for reason, _ in kept)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0
