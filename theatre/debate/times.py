"""Times as debates write them: RFC 3339 with any offset, where the engine's own are UTC."""

from __future__ import annotations

from datetime import datetime


def moment(text: str) -> datetime | None:
    """Return the moment that `text` names; None where the calendar has no such time.

    `text` has the shape that the schema demands.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
