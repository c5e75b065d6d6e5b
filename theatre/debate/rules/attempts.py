"""R8 … R11: attempts are counted, in time, allowed by the mode, and the last one is the turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from theatre.debate.models import Attempt, Debate
from theatre.debate.rules.reports import Report, attempt_pointer, turn_pointer
from theatre.debate.times import parse_time
from theatre.engine.schema_registry import json_pointer, quote


def attempt_order(debate: Debate) -> Iterator[Report]:
    """R8: attempt_index is 0, 1, 2 …; times are real and never go back within a turn."""
    times = [("/metadata/created_at", debate.metadata.created_at)]
    times += [
        (json_pointer("intervention_log", number, "timestamp"), entry.timestamp)
        for number, entry in enumerate(debate.intervention_log or ())
    ]
    for pointer, text in times:
        if parse_time(text) is None:
            yield _no_time(pointer, text)
    for place, turn in enumerate(debate.turns):
        yield from _order_within(place, turn.attempts or ())


def _order_within(place: int, attempts: Sequence[Attempt]) -> Iterator[Report]:
    latest: datetime | None = None
    for number, attempt in enumerate(attempts):
        if attempt.attempt_index != number:
            pointer = attempt_pointer(place, number, "attempt_index")
            detail = f"expected {number}, its place, got {attempt.attempt_index}"
            yield Report("E_ATTEMPT_INDEX_INVALID", pointer, detail)
        pointer = attempt_pointer(place, number, "timestamp")
        at = parse_time(attempt.timestamp)
        if at is None:
            yield _no_time(pointer, attempt.timestamp)
            continue
        if latest is not None and at < latest:
            detail = f"expected no time before the last attempt's, got {quote(attempt.timestamp)}"
            yield Report("E_ATTEMPT_TIME_DECREASES", pointer, detail)
        latest = at


def _no_time(pointer: str, text: str) -> Report:
    return Report("E_TIME_INVALID", pointer, f"expected a time of the calendar, got {quote(text)}")


def mode(debate: Debate) -> Iterator[Report]:
    """R9: a posthoc run (also by default) has at most one attempt a turn."""
    if debate.evaluation_mode == "in_loop":
        return
    for place, turn in enumerate(debate.turns):
        seen, pointer = len(turn.attempts or ()), turn_pointer(place, "attempts")
        if seen > 1:
            detail = f"expected at most 1 attempt of a posthoc run, got {seen}"
            yield Report("E_MODE_MISMATCH", pointer, detail)
        elif seen:
            detail = "expected no attempts of a posthoc run, got 1"
            yield Report("W_ATTEMPTS_PRESENT_POSTHOC", pointer, detail)


def accepted_attempt(debate: Debate) -> Iterator[Report]:
    """R10: content and recommendation of a turn are those of its last attempt."""
    for place, turn in enumerate(debate.turns):
        if not turn.attempts:
            continue
        last = turn.attempts[-1]
        for member in ("content", "recommendation"):
            if getattr(turn, member) != getattr(last, member):
                detail = f"expected the {member} of its last attempt, got another"
                yield Report("E_ACCEPTED_ATTEMPT_MISMATCH", turn_pointer(place, member), detail)


def retry_count(debate: Debate) -> Iterator[Report]:
    """R11: retry_count, where it is given, is the attempt's index."""
    for place, turn in enumerate(debate.turns):
        for number, attempt in enumerate(turn.attempts or ()):
            seen = attempt.control_state.retry_count if attempt.control_state else None
            if seen is not None and seen != attempt.attempt_index:
                pointer = attempt_pointer(place, number, "control_state", "retry_count")
                detail = f"expected {attempt.attempt_index}, the attempt_index, got {seen}"
                yield Report("E_RETRY_COUNT_MISMATCH", pointer, detail)
