"""Times as the documents write them: RFC 3339, UTC, with a `Z`.

The engine never reads a clock itself: what needs the time gets a `Clock` as an
argument (design rule 1).
"""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from theatre.engine.errors import ClockError

Clock = Callable[[], datetime]
"""Returns the current time, timezone-aware, in UTC."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""


class SteadyClock:
    """A clock that never shows less than before, even when the system clock is set back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = datetime.min.replace(tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time, or the last one that was seen if that is later."""
        self._last = max(self._last, self._clock())
        return self._last

    def not_before(self, stamp: str) -> None:
        """Take notice of a stamp that is written already; ClockError for what is none."""
        self._last = max(self._last, parse_rfc3339(stamp))


_RFC3339_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?Z", re.ASCII)


def format_rfc3339(moment: datetime) -> str:
    """Return `moment` in UTC with microseconds, as ``2026-11-21T02:07:00.000000Z``.

    Raises ClockError for a naive datetime: it names no moment.
    """
    if moment.tzinfo is None:
        raise ClockError(f"expected a timezone-aware time, got the naive {moment.isoformat()}")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_rfc3339(text: str) -> datetime:
    """Return the moment that `text` names.

    Raises ClockError unless `text` is a real calendar time in UTC, spelt with a `Z`.
    """
    if not _RFC3339_UTC.fullmatch(text):
        raise ClockError(f"expected an RFC 3339 time in UTC with Z, got {text[:40]!r}")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ClockError(f"expected a time that the calendar has, got {text[:40]!r}") from error
