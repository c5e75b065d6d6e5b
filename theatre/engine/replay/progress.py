"""How far a run is, for display."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theatre.engine.models import InvocationStatus
from theatre.engine.replay.calls import CalledEpisode
from theatre.engine.replay.records import last_latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is. `status` and `latency_ms` are those of the newest answer, if any."""

    done: int
    total: int
    status: InvocationStatus | None = None
    latency_ms: int | None = None


class ProgressCount:
    """Reports to a listener how many answers have arrived, in order of arrival."""

    def __init__(self, listener: Callable[[Progress], None], *, done: int, total: int) -> None:
        self._listener = listener
        self._done = done
        self._total = total
        listener(Progress(done=done, total=total))

    def count(self, called: CalledEpisode) -> None:
        """Take one more answer."""
        self._done += 1
        self._listener(
            Progress(
                done=self._done,
                total=self._total,
                status=called.answer.status,
                latency_ms=last_latency(called.record),
            )
        )
