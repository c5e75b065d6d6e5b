"""The sections of a structured turn. A turn without claim and reasons is unstructured: None."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from theatre.debate.text.words import content_of, one_line, sentences, words

_HEADING = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]*(?:\d+[.)][ \t]*)?|\d+[.)][ \t]*)"
    r"(CLAIM|DECISION|REASON[ \t]*\d+|COUNTERARGUMENT|REBUTTAL|ASSUMPTIONS|EPISTEMIC[ \t]+CLARITY"
    r"|WHAT[ \t]+WOULD[ \t]+CHANGE[ \t]+MY[ \t]+MIND|FINAL[ \t]+CONSISTENCY[ \t]+CHECK)\b[ \t]*:?"
)
_LABEL = re.compile(r"(M(?<!\wM)echanism|E(?<!\wE)vidence|F(?<!\wF)alsifier|F(?<!\wF)alsified if):")
_FALSIFIERS = frozenset({"Falsifier", "Falsified if"})
ALIKE = 0.8
"""Reasons that share this part of their words are one reason said twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: what is argued, and what would prove it wrong (None where nothing is named)."""

    text: str
    falsifier: str | None
    words: tuple[str, ...]
    """The words of `text`, read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredTurn:
    """The sections of a turn by name, on one line each; its reasons, each counted once."""

    sections: Mapping[str, str]
    reasons: tuple[Reason, ...]

    def section(self, name: str) -> str:
        """Return a section's text; empty where there is none."""
        return self.sections.get(name, "")

    @property
    def falsifiers(self) -> int:
        """Return how many things are named that would change this mind."""
        own = sum(1 for reason in self.reasons if reason.falsifier)
        return own + len(sentences(self.section("WHAT WOULD CHANGE MY MIND")))


def read_structure(content: str) -> StructuredTurn | None:
    """Return the structure of `content`; None without a claim or decision and a reason."""
    sections = _sections(content)
    raw = [sections[name] for name in sorted(sections) if name.startswith("REASON")]
    if not raw or not {"CLAIM", "DECISION"} & set(sections):
        return None
    return StructuredTurn(sections=sections, reasons=_distinct([_reason(body) for body in raw]))


def _sections(content: str) -> dict[str, str]:
    """Return the body of each heading by its name; those of one name together."""
    parts: dict[str, list[str]] = {}
    body: list[str] = []  # what stands before the first heading belongs to none
    for line in content.split("\n"):
        first = line.lstrip(" \t")[:1]
        is_candidate = first == "#" or first.isdigit()
        heading = _HEADING.match(line) if is_candidate else None
        if heading is None:
            body.append(line)
        else:
            body = parts.setdefault(one_line(heading.group(1)), [])
            body.append(line[heading.end() :])
    return {name: one_line(" ".join(lines)) for name, lines in parts.items()}


def _reason(body: str) -> Reason:
    parts = _LABEL.split(body)
    kept: list[str] = [parts[0]]
    falsifiers: list[str] = []
    for label, text in zip(parts[1::2], parts[2::2], strict=True):
        (falsifiers if label in _FALSIFIERS else kept).append(text.strip())
    text = one_line(" ".join(kept))
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
