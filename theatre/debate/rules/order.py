"""R5 … R7 and R16: the order of turns and rounds, and what the intervention log points to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from theatre.debate.models import Debate
from theatre.debate.rules.reports import Report, turn_pointer
from theatre.engine.schema_registry import json_pointer, quote


def turn_indices(debate: Debate) -> Iterator[Report]:
    """R5: no two turns share a turn_index."""
    seen: set[int] = set()
    for place, turn in enumerate(debate.turns):
        if turn.turn_index in seen:
            detail = f"expected each turn_index once, got {turn.turn_index} again"
            yield Report("E_DUPLICATE_TURN_INDEX", turn_pointer(place, "turn_index"), detail)
        seen.add(turn.turn_index)


def turn_order(debate: Debate) -> Iterator[Report]:
    """R6: turns stand in the order of turn_index; gaps are allowed and noted."""
    if debate.turns[0].turn_index > 0:
        detail = f"expected the first turn_index to be 0, got {debate.turns[0].turn_index}"
        yield Report("W_TURN_INDEX_GAP", turn_pointer(0, "turn_index"), detail)
    for place, (before, turn) in enumerate(pairwise(debate.turns), start=1):
        pointer = turn_pointer(place, "turn_index")
        step = turn.turn_index - before.turn_index
        if step < 0:
            detail = f"expected more than {before.turn_index}, got {turn.turn_index}"
            yield Report("E_TURN_ORDER", pointer, detail)
        elif step > 1:
            detail = f"expected {before.turn_index + 1}, got {turn.turn_index}"
            yield Report("W_TURN_INDEX_GAP", pointer, detail)


def rounds(debate: Debate) -> Iterator[Report]:
    """R7: round_index never falls from one turn that has one to the next."""
    numbered = [
        (place, turn.round_index)
        for place, turn in enumerate(debate.turns)
        if turn.round_index is not None
    ]
    for (_, before), (place, number) in pairwise(numbered):
        if number < before:
            detail = f"expected at least {before}, the round of the turn before, got {number}"
            yield Report("E_ROUND_ORDER", turn_pointer(place, "round_index"), detail)


def interventions(debate: Debate) -> Iterator[Report]:
    """R16: each intervention names a turn that there is, and its speaker."""
    speakers: dict[int, list[str]] = {}
    for turn in debate.turns:
        speakers.setdefault(turn.turn_index, []).append(turn.speaker_id)
    for number, entry in enumerate(debate.intervention_log or ()):
        known = speakers.get(entry.turn_index)
        if known is None:
            pointer = json_pointer("intervention_log", number, "turn_index")
            detail = f"expected the turn_index of a turn, got {entry.turn_index}"
            yield Report("E_INTERVENTION_TURN_UNKNOWN", pointer, detail)
        elif entry.speaker_id not in known:
            pointer = json_pointer("intervention_log", number, "speaker_id")
            seen = quote(entry.speaker_id)
            detail = f"expected {quote(known[0])}, who has that turn, got {seen}"
            yield Report("E_INTERVENTION_SPEAKER_MISMATCH", pointer, detail)
