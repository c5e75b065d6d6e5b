"""R12 … R15: ranges, units, answers next to recommendations, and the numbers of audits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pydantic import BaseModel

from theatre.debate.models import Debate, Recommendation, Turn, parse_action
from theatre.debate.pid import mismatches
from theatre.debate.rules.identity import Report, attempt_pointer, turn_pointer
from theatre.engine.schema_registry import json_pointer, quote

WHOLE = 100
"""A size above this is no share of anything, in percent."""


def recommendations(debate: Debate) -> Iterator[tuple[str, Recommendation]]:
    """Yield every recommendation with its pointer, turns' and attempts'."""
    for place, turn in enumerate(debate.turns):
        if turn.recommendation is not None:
            yield turn_pointer(place, "recommendation"), turn.recommendation
        for number, attempt in enumerate(turn.attempts or ()):
            if attempt.recommendation is not None:
                yield attempt_pointer(place, number, "recommendation"), attempt.recommendation


def ranges(debate: Debate) -> Iterator[Report]:
    """R12: no minimum lies above its maximum; conviction is a number."""
    for pointer, one in recommendations(debate):
        sizes = ("position_size_pct", one.position_size_pct_min, one.position_size_pct_max)
        days = ("horizon_days", one.horizon_days_min, one.horizon_days_max)
        for name, low, high in (sizes, days):
            # `not <=`: a NaN is in no range.
            if not low <= high:
                detail = f"expected at most {name}_max {quote(high)}, got {quote(low)}"
                yield Report("E_RECOMMENDATION_RANGE_INVALID", f"{pointer}/{name}_min", detail)
        if not math.isfinite(one.conviction):
            detail = "expected a finite number"
            yield Report("E_RECOMMENDATION_RANGE_INVALID", f"{pointer}/conviction", detail)


def sizes(debate: Debate) -> Iterator[Report]:
    """R13: a size above 100 is an error; one up to 1 looks like a fraction and is noted."""
    for pointer, one in recommendations(debate):
        size = one.position_size_pct_max
        if size > WHOLE:
            detail = f"expected at most 100 percent, got {quote(size)}"
            yield Report("E_SIZE_ABOVE_100", f"{pointer}/position_size_pct_max", detail)
        elif 0 < size <= 1:
            detail = f"expected percent, got {quote(size)}, which looks like a fraction"
            yield Report("W_UNIT", f"{pointer}/position_size_pct_max", detail)


def final_answers(debate: Debate) -> Iterator[Report]:
    """R14: an answer that differs from the recommendation is noted; it is data, not a fault."""
    for place, turn in enumerate(debate.turns):
        trace, advice = turn.rca_trace, turn.recommendation
        if trace is None or advice is None:
            continue
        pointer = turn_pointer(place, "rca_trace", "final_answer")
        stated = parse_action(trace.final_answer)
        if stated is None:
            detail = f"expected one action, got {quote(trace.final_answer)}"
            yield Report("W_NO_STRUCTURED_FINAL_ANSWER", pointer, detail)
        elif stated != advice.action:
            detail = f"expected {advice.action}, the recommendation's action, got {stated}"
            yield Report("W_FINAL_ANSWER_DIFFERS", pointer, detail)


def audit_numbers(debate: Debate) -> Iterator[Report]:
    """R15: audits hold finite numbers, and each u_t is what its errors come to."""
    for place, turn in enumerate(debate.turns):
        yield from _endless_numbers(place, turn)
    for one in mismatches(debate):
        detail = f"expected {one.expected!r} from the errors so far, got {one.stored!r}"
        yield Report("W_PID_REPLAY", one.pointer, detail)


def _endless_numbers(place: int, turn: Turn) -> Iterator[Report]:
    for number, attempt in enumerate(turn.attempts or ()):
        for member in ("audit", "control_state"):
            part = getattr(attempt, member)
            for path in () if part is None else _not_finite(part):
                pointer = attempt_pointer(place, number, member) + json_pointer(*path)
                yield Report("E_NOT_FINITE", pointer, "expected a finite number")


def _not_finite(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, BaseModel):
        yield from _not_finite({**vars(value), **(value.model_extra or {})}, path)
    elif isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in parts:
            if isinstance(item, float | dict | list | BaseModel):  # anything else is finite
                yield from _not_finite(item, (*path, key))
