"""The runtime rules R1 … R16, each a named check over one artefact (docs/debate.md, "The rules").

R17 (a pair of ids once in a collection) and R18 (strict JSON) need more or less than an artefact:
they are in `theatre.debate.validation`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from pydantic import BaseModel

from theatre.debate.models import (
    Attempt,
    Debate,
    Finding,
    Recommendation,
    Turn,
    parse_action,
    parse_time,
)
from theatre.debate.pid import mismatches
from theatre.engine.schema_registry import json_pointer, quote

# What a rule reports; the rule book adds its number and gravity.


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


# R8 … R11: attempts are counted, in time, allowed by the mode, and the last one is the turn.


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


# R5 … R7 and R16: the order of turns and rounds, and what the intervention log points to.


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


# R12 … R15: ranges, units, answers next to recommendations, and the numbers of audits.


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


# The rule book.


Check = Callable[[Debate], Iterator[Report]]

RULES: dict[str, Check] = {
    "R1": schema_version,
    "R2": agent_ids,
    "R3": speakers,
    "R4": turn_ids,
    "R5": turn_indices,
    "R6": turn_order,
    "R7": rounds,
    "R8": attempt_order,
    "R9": mode,
    "R10": accepted_attempt,
    "R11": retry_count,
    "R12": ranges,
    "R13": sizes,
    "R14": final_answers,
    "R15": audit_numbers,
    "R16": interventions,
}

SOFTENED = {
    "E_TURN_ORDER": "W_TURN_INDEX_NOT_MONOTONIC",
    "E_RETRY_COUNT_MISMATCH": "W_RETRY_COUNT_MISMATCH",
}
"""Errors that lenient reading turns into warnings."""


def rule_findings(debate: Debate, *, lenient: bool = False) -> list[Finding]:
    """Return what every rule finds, rule by rule; `lenient` softens errors of `SOFTENED`."""
    found = []
    for rule, check in RULES.items():
        for report in check(debate):
            code = SOFTENED.get(report.code, report.code) if lenient else report.code
            found.append(
                Finding(
                    pointer=report.pointer,
                    rule=rule,
                    code=code,
                    severity="error" if code.startswith("E_") else "warning",
                    detail=report.detail,
                )
            )
    return found
