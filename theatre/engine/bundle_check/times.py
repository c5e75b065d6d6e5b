"""When it happened, as far as the bundle itself can contradict it: the check `times`.

Source: docs/evidence.md, "Times". Whether a clock was right, nothing in a bundle settles; that
its stamps follow from each other, and name no time to come, is settled here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from theatre.engine.bundle_check.json_values import Nothing, at, shown
from theatre.engine.bundle_check.recorded import calls_of
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ClockError

GRACE = timedelta(seconds=5)
"""How far the first call may lie before the commitment: two clocks may have written them."""

AHEAD = timedelta(minutes=5)
"""How far a stamp may lie beyond the checker's own clock."""

_FULL = len("2026-11-21T02:07:00.000000Z")


class Times:
    """Takes the stamps of the trail and of the records as they are read.

    A stamp that is no time is for the check that reads it: here it counts for nothing.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._entry = ""
        self._first_call: str | None = None
        self._last_answer = ""
        self._latest = ""

    def note_entry(self, entry: JsonObject) -> None:
        """Take the next entry of the audit trail: none is earlier than the one before it."""
        stamp = _stamp(at(entry, "at"))
        if stamp is None:
            return
        if stamp < self._entry:
            place = f"entry {shown(at(entry, 'seq'))} of the trail at {self._entry} or later"
            self._ledger.wrong(CheckId.TIMES, place, stamp)
        self._entry = max(self._entry, stamp)
        self._latest = max(self._latest, stamp)

    def note_record(self, record: JsonObject, where: str) -> None:
        """Take one record: no answer is earlier than its call, nor than the attempt before it."""
        for call in calls_of(record):
            asked = _stamp(at(call, "request", "metadata", "invoked_at"))
            if asked is None:
                continue
            self._first_call = asked if self._first_call is None else min(self._first_call, asked)
            attempts, before = at(call, "attempts"), asked
            for attempt in attempts if isinstance(attempts, list) else ():
                answered = _stamp(at(attempt, "response", "responded_at")) or before
                if answered < before:
                    expected = f"{where}: an answer at {before} or later"
                    self._ledger.wrong(CheckId.TIMES, expected, answered)
                before = answered
            self._last_answer = max(self._last_answer, before)

    def finish(
        self, committed_at: JsonValue | Nothing, sealed_at: JsonValue | Nothing, now: datetime
    ) -> None:
        """Make the check `times`, everything noted."""
        committed, sealed = _stamp(committed_at), _stamp(sealed_at)
        if committed is None or sealed is None:
            expected = "a trail with the times of commitment and sealing"
            self._ledger.wrong(CheckId.TIMES, expected, "none")
            return
        earliest = _shifted(committed, -GRACE)
        if self._first_call is not None and self._first_call < earliest:
            expected = f"a first call at {earliest} or later, committed at {committed}"
            self._ledger.wrong(CheckId.TIMES, expected, self._first_call)
        if self._last_answer > sealed:
            expected = f"a last answer at {sealed} or earlier, when it was sealed"
            self._ledger.wrong(CheckId.TIMES, expected, self._last_answer)
        latest, limit = max(self._latest, self._last_answer), format_rfc3339(now + AHEAD)
        if latest > limit:
            self._ledger.wrong(CheckId.TIMES, f"no time beyond {limit}", latest)
        self._ledger.completed(CheckId.TIMES, f"committed {committed}, sealed {sealed}")


def _stamp(value: JsonValue | Nothing) -> str | None:
    """Return a time in the one spelling that sorts as time does; None for what is no time."""
    if not isinstance(value, str):
        return None
    if len(value) == _FULL:
        return value
    try:
        return format_rfc3339(parse_rfc3339(value))
    except ClockError:
        return None


def _shifted(stamp: str, by: timedelta) -> str:
    try:
        return format_rfc3339(parse_rfc3339(stamp) + by)
    except (ClockError, OverflowError):
        return stamp
