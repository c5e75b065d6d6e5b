"""Editing a copy of an artefact: a turn and the attempt that it accepts change together."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from theatre.debate.actions import Action
from theatre.engine.canonical_json import JsonObject

Draft: TypeAlias = dict[str, Any]
"""A part of an artefact that is being changed."""

Edit = Callable[[Draft, int], bool]
"""Changes a copy of the artefact at a turn's place; False where it does not apply."""


def apply(edit: Edit, document: JsonObject, place: int) -> JsonObject | None:
    """Return a copy of `document` with `edit` done to the turn at `place`; None where it cannot."""
    draft = cast("Draft", copy.deepcopy(document))
    return draft if edit(draft, place) else None


def rewrite(debate: Draft, place: int, change: Callable[[str], str]) -> bool:
    """Change a turn's accepted text; False where that changes nothing."""
    turn = debate["turns"][place]
    text = change(turn["content"])
    if text == turn["content"] or not text:
        return False
    accept(turn, text)
    return True


def accept(turn: Draft, text: str) -> None:
    """Make `text` what the turn and its last attempt say."""
    turn["content"] = text
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt["content"] = text


def decide(turn: Draft, action: Action, text: str) -> None:
    """Let a turn consistently say `action`, with `text`."""
    before = turn["recommendation"]["action"]
    advice = {**turn["recommendation"], "action": action}
    advice["raw_text"] = re.sub(rf"\b{before}\b", action, advice["raw_text"])
    turn["recommendation"] = advice
    accept(turn, text)
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt |= {"recommendation": advice, "final_answer": action}
        attempt["reasoning_trace"] = f"On reflection {action}."
    if turn.get("rca_trace"):
        turn["rca_trace"] = {
            **turn["rca_trace"],
            "reasoning_steps": f"On reflection {action}.",
            "final_answer": action,
        }
