"""The four actions, their direction, and how they are found in text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

Action: TypeAlias = Literal["BUY", "SELL", "SHORT", "HOLD"]

DIRECTION: Mapping[Action, int] = {"BUY": 1, "SELL": -1, "SHORT": -1, "HOLD": 0}
"""SELL and SHORT point the same way; they are not the same answer."""

# Each branch begins with a letter, so that the search can skip to one; then `\b` is held behind it.
_ACTION = re.compile(
    r"B(?<!\wB)UY\b|S(?<!\wS)(?:ELL|HORT)\b|H(?<!\wH)OLD\b",
)


def actions_in(text: str) -> list[Action]:
    """Return every action that `text` names in capitals, in order."""
    return [cast("Action", name) for name in _ACTION.findall(text)]


def parse_action(answer: str | None) -> Action | None:
    """Return the action that a final answer states; None where it names none or several.

    A whole answer such as "buy" counts in any case; inside a sentence only capitals do.
    """
    if answer is None:
        return None
    whole = answer.strip().strip(".").upper()
    found = set(actions_in(whole if whole in DIRECTION else answer))
    return found.pop() if len(found) == 1 else None
