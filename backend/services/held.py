"""What a run that a worker holds comes to, and how it stands on the way."""

from __future__ import annotations

from typing import NamedTuple


class LeaseStatus(NamedTuple):
    """How a run stands now."""

    is_cancelled: bool
    lost_workers: int
    """How many it lost in a row since it last recorded anything."""


class RunEnd(NamedTuple):
    """Where a run came to: a status of the row, and the step that waits for people, if one does."""

    status: str
    pending_step: str | None = None
    seconds_left: float | None = None
    """Until the committed time limit of that step, if it has one."""
