"""What differs between rows and evidence, collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One thing that differs."""

    code: str
    """What kind of damage; stable."""
    subject: str
    """The theatre, template or object that has it."""
    expected: str
    actual: str


class Findings:
    """What was found of one subject."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.all: list[Finding] = []

    def add(self, code: str, expected: str, actual: str) -> None:
        """Note a difference."""
        self.all.append(Finding(code, self.subject, expected, actual))

    def compare(
        self, code: str, place: str, expected: Mapping[str, Any], row: Mapping[str, Any]
    ) -> None:
        """Hold the columns of a row against what they should be; others are not looked at."""
        for name, value in expected.items():
            if row[name] != value:
                self.add(code, f"{name} of {place}: {value!r:.80}", f"{row[name]!r:.80}")
