"""The sections of a structured turn. A turn without claim and reasons is unstructured: None."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from theatre.debate.text.words import content_of, one_line, sentences_of, words

_HEADING = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]*(?:\d+[.)][ \t]*)?|\d+[.)][ \t]*)"
    r"(CLAIM|DECISION|REASON[ \t]*\d+|COUNTERARGUMENT|REBUTTAL|ASSUMPTIONS|EPISTEMIC[ \t]+CLARITY"
    r"|WHAT[ \t]+WOULD[ \t]+CHANGE[ \t]+MY[ \t]+MIND|FINAL[ \t]+CONSISTENCY[ \t]+CHECK)\b[ \t]*:?"
)
_LABEL = re.compile(r"(M(?<!\wM)echanism|E(?<!\wE)vidence|F(?<!\wF)alsifier|F(?<!\wF)alsified if):")
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
    names = sorted((name for name in bodies if name.startswith(REASON)), key=_by_number)
    if not names or not {"CLAIM", "DECISION"} & set(bodies):
        return None
    return StructuredTurn(
        opening=opening,
        sections={name: " ".join(filter(None, said)) for name, said in bodies.items()},
        reasons=_distinct([_reason(bodies[name]) for name in names]),
    )


def _by_number(name: str) -> tuple[int, str]:
    """Put REASON 10 behind REASON 9."""
    return len(name), name


def _bodies(content: str) -> dict[str, list[str]]:
    """Return the bodies of each heading by its name, each on one line, and the opening."""
    said: list[tuple[str, list[str]]] = [(_OPENING, [])]
    for line in content.split("\n"):
        first = line.lstrip(" \t")[:1]
        is_candidate = first == "#" or first.isdigit()
        heading = _HEADING.match(line) if is_candidate else None
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
