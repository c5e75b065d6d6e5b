"""Times as debates write them, RFC 3339 with any offset; and the clock of runs without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from theatre.engine.clock import Clock

FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
"""When every run by `counting_clock` begins."""


def parse_time(text: str) -> datetime | None:
    """Return the moment that `text` names; None where the calendar has no such time.

    `text` has the shape that the schema demands.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def counting_clock() -> Clock:
    """Return a clock that is a second further each time it is read: it counts events."""
    ticks = count()
    return lambda: FIRST_MOMENT + timedelta(seconds=next(ticks))
