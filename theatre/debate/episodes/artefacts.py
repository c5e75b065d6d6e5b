"""Artefacts in the result of an episode, read without trust: a scorer never raises on them."""

from __future__ import annotations

from pydantic import ValidationError

from theatre.debate.models import Debate
from theatre.engine.canonical_json import JsonValue


def debate_at(value: JsonValue) -> Debate | None:
    """Return the debate in `value`; None where it is none. The rules are not asked."""
    if not isinstance(value, dict):
        return None
    try:
        return Debate.model_validate(value)
    except ValidationError:
        return None
