"""How far a run is, on stderr: a live line on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Self

import click

from theatre.engine.models import InvocationStatus
from theatre.engine.replay import Progress

BAR_WIDTH = 24
TERMINAL_INTERVAL = 0.1
PLAIN_INTERVAL = 10.0
_RECENT = 1000


class ProgressLine:
    """Draws the progress of one run; a context manager that ends its line."""

    def __init__(
        self, title: str, *, quiet: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._quiet = quiet
        self._monotonic = monotonic
        self._terminal = sys.stderr.isatty()
        self._counts: Counter[InvocationStatus] = Counter()
        self._latencies: deque[int] = deque(maxlen=_RECENT)
        self._began: tuple[float, int] | None = None
        self._drawn_at: float | None = None
        self._last: Progress | None = None

    def __enter__(self) -> Self:
        """Start without a line."""
        return self

    def __exit__(self, *_: object) -> None:
        """Draw the last state and end the line."""
        if self._last is not None and not self._quiet:
            self._draw(self._last)
            if self._terminal:
                click.echo(err=True)

    def update(self, progress: Progress) -> None:
        """Take the newest progress; draws at most as often as a reader can use."""
        now = self._monotonic()
        if self._began is None:
            self._began = (now, progress.done)
        if progress.status is not None:
            self._counts[progress.status] += 1
        if progress.latency_ms is not None:
            self._latencies.append(progress.latency_ms)
        self._last = progress
        interval = TERMINAL_INTERVAL if self._terminal else PLAIN_INTERVAL
        if self._quiet or (self._drawn_at is not None and now - self._drawn_at < interval):
            return
        self._drawn_at = now
        self._draw(progress)

    def _draw(self, progress: Progress) -> None:
        line = self.text(progress)
        click.echo(f"\r\x1b[2K{line}" if self._terminal else line, err=True, nl=not self._terminal)

    def text(self, progress: Progress) -> str:
        """Return the line: title, bar, counts, median latency, time to go."""
        filled = BAR_WIDTH * progress.done // max(progress.total, 1)
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        counts = " ".join(f"{status} {self._counts[status]}" for status in InvocationStatus)
        p50 = f"p50 {statistics.median(self._latencies):.0f} ms" if self._latencies else "p50 -"
        return (
            f"{self._title} {bar} {progress.done}/{progress.total} │ {counts} │ {p50} │ "
            f"ETA {self._eta(progress)}"
        )

    def _eta(self, progress: Progress) -> str:
        if self._began is None or progress.done == self._began[1]:
            return "-"
        elapsed = self._monotonic() - self._began[0]
        seconds = elapsed / (progress.done - self._began[1]) * (progress.total - progress.done)
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02d}"
