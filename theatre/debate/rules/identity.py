"""R1 … R4: which version, who takes part, who speaks, which turn is which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from theatre.debate.models import Debate
from theatre.debate.rules.reports import Report, turn_pointer
from theatre.engine.schema_registry import json_pointer, quote


def schema_version(debate: Debate) -> Iterator[Report]:
    """R1: the version, which the schema pins, and ids that tools can rely on."""
    try:
        UUID(debate.run_id)
    except ValueError:
        detail = f"expected a UUID, advised for run ids, got {quote(debate.run_id)}"
        yield Report("W_RUN_ID_NOT_UUID", "/run_id", detail)


def agent_ids(debate: Debate) -> Iterator[Report]:
    """R2: no two participants share an agent_id."""
    seen = (participant.agent_id for participant in debate.participants)
    for place, value in _repeated(seen):
        pointer = json_pointer("participants", place, "agent_id")
        yield Report("E_DUPLICATE_AGENT_ID", pointer, _twice(value))


def speakers(debate: Debate) -> Iterator[Report]:
    """R3: every speaker is a participant, character by character."""
    known = {participant.agent_id for participant in debate.participants}
    for place, turn in enumerate(debate.turns):
        if turn.speaker_id not in known:
            detail = f"expected the agent_id of a participant, got {quote(turn.speaker_id)}"
            yield Report("E_SPEAKER_UNKNOWN", turn_pointer(place, "speaker_id"), detail)


def turn_ids(debate: Debate) -> Iterator[Report]:
    """R4: no two turns share a turn_id."""
    for place, value in _repeated(turn.turn_id for turn in debate.turns):
        yield Report("E_DUPLICATE_TURN_ID", turn_pointer(place, "turn_id"), _twice(value))


def _repeated(values: Iterable[str]) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for place, value in enumerate(values):
        if value in seen:
            yield place, value
        seen.add(value)


def _twice(value: str) -> str:
    return f"expected each id once, got {quote(value)} again"
