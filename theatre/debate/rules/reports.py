"""What a rule reports; the rule book adds its number and gravity."""

from __future__ import annotations

from typing import NamedTuple

from theatre.engine.schema_registry import json_pointer


class Report(NamedTuple):
    """One breach: a code (`E_…` or `W_…`), where, expected and seen."""

    code: str
    pointer: str
    detail: str


def turn_pointer(place: int, *members: object) -> str:
    """Return the pointer to a member of the turn at `place` in the array."""
    return json_pointer("turns", place, *members)


def attempt_pointer(place: int, number: int, *members: object) -> str:
    """Return the pointer to a member of an attempt."""
    return json_pointer("turns", place, "attempts", number, *members)
