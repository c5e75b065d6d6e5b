"""How far a run is, on stderr: a live line on a terminal, a line every ten seconds elsewhere."""

import os
import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import click

from theatre.cli.exits import is_terminal, printable
from theatre.cli.tables import format_dollars
from theatre.engine.models import InvocationStatus
from theatre.engine.replay import Progress
from theatre.engine.replay.usage import UsageTally

PLAIN_INTERVAL = 10.0
_TERMINAL_INTERVAL = 0.1
_BAR_WIDTH, _NARROW_BAR_WIDTH = 24, 10
_UNKNOWN_COLUMNS = 80
_RECENT = 1000
_FAILURE_CHARACTERS = 300
_CLEAR = "\r\x1b[2K"


def _can_draw_over() -> bool:
    """Tell whether a line can be drawn over: a dumb terminal, as editors have, shows the codes."""
    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """Draws the progress of one run; a context manager that ends its line."""

    def __init__(
        self,
        title: str,
        *,
        quiet: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        used: UsageTally | None = None,
    ) -> None:
        self._title = title
        self._used = used
        self._quiet = quiet
        self._monotonic = monotonic
        self._terminal = _can_draw_over()
        self._counts: Counter[InvocationStatus] = Counter()
        self._latencies: deque[int] = deque(maxlen=_RECENT)
        self._began: tuple[float, int] | None = None
        self._drawn_at: float | None = None
        self._has_failed = False
        self._last: Progress | None = None
        self._drawn: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last is not None and not self._quiet:
            if self._last is not self._drawn:
                self._draw(self._last)
            if self._terminal:
                click.echo(err=True)

    def say(self, text: str) -> None:
        """Print a line of its own above the progress; a quiet run says nothing."""
        if self._quiet:
            return
        try:
            click.echo(f"{_CLEAR}{text}" if self._terminal else text, err=True)
        except OSError:
            # As with progress: no one reads it, and the run must go on.
            self._quiet = True

    def update(self, progress: Progress) -> None:
        """Take the newest progress; draws at most as often as a reader can use."""
        now = self._monotonic()
        if self._began is None:
            self._began = (now, progress.done)
        if progress.status is not None:
            self._counts[progress.status] += 1
        if progress.failure is not None and not self._has_failed:
            # A fault of the construct itself meets every episode, after all the retries of each.
            self._has_failed = True
            words = printable(" ".join(progress.failure.split()))
            self.say(f"first failed {words[:_FAILURE_CHARACTERS]}")
        if progress.latency_ms is not None:
            self._latencies.append(progress.latency_ms)
        if self._used is not None:
            self._used.note(progress.used)
        self._last = progress
        interval = _TERMINAL_INTERVAL if self._terminal else PLAIN_INTERVAL
        if self._quiet or (self._drawn_at is not None and now - self._drawn_at < interval):
            return
        self._drawn_at = now
        self._draw(progress)

    def _draw(self, progress: Progress) -> None:
        self._drawn = progress
        line = self.text(progress, columns=_columns() if self._terminal else None)
        try:
            click.echo(
                f"{_CLEAR}{line}" if self._terminal else line, err=True, nl=not self._terminal
            )
        except OSError:
            # Nothing can be printed (a closed pipe, a full disk): the run itself must go on.
            self._quiet = True

    def text(self, progress: Progress, *, columns: int | None = None) -> str:
        """Return the line: title, bar, counts, median latency, time to go.

        Where it is to fit into `columns`, the title goes first, then what counts nothing; a line
        that a terminal breaks could not be drawn over.
        """
        seen = [status for status in InvocationStatus if self._counts[status]]
        line = self._line(progress, f"{self._title} ", _BAR_WIDTH, InvocationStatus)
        if columns is None or len(line) < columns:
            return line
        line = self._line(progress, "", _BAR_WIDTH, InvocationStatus)
        if len(line) >= columns:
            line = self._line(progress, "", _NARROW_BAR_WIDTH, seen)
        return line[: columns - 1]

    def _line(
        self, progress: Progress, title: str, width: int, statuses: Iterable[InvocationStatus]
    ) -> str:
        counts = " ".join(f"{status} {self._counts[status]}" for status in statuses)
        p50 = f"p50 {statistics.median(self._latencies):.0f} ms" if self._latencies else "p50 -"
        facts = [f"{progress.done}/{progress.total}", counts, p50, f"ETA {self._eta(progress)}"]
        facts += usage_facts(self._used, self._cost_to_go(progress))
        bar = _bar(progress.done, progress.total, width)
        return f"{title}{bar} {' │ '.join(fact for fact in facts if fact)}"

    def _eta(self, progress: Progress) -> str:
        if self._began is None or progress.done == self._began[1]:
            return "-"
        elapsed = self._monotonic() - self._began[0]
        seconds = elapsed / (progress.done - self._began[1]) * (progress.total - progress.done)
        return format_duration(seconds)

    def _cost_to_go(self, progress: Progress) -> float | None:
        """Return the dollars that the rest costs at the mean of this start, where it is known."""
        spent = None if self._used is None else self._used.cost_usd
        if spent is None or self._began is None or progress.done == self._began[1]:
            return None
        return spent / (progress.done - self._began[1]) * (progress.total - progress.done)


def usage_facts(used: UsageTally | None, cost_to_go: float | None) -> Iterator[str]:
    """Yield tokens and dollars so far, and what the rest will cost, as far as it is known."""
    if used is None or not used.counted:
        return
    yield f"{sum(used.tokens)} tokens"
    if used.cost_usd is not None:
        rest = f", {format_dollars(cost_to_go)} to go" if cost_to_go else ""
        yield f"{format_dollars(used.cost_usd)}{rest}"


def _bar(done: int, total: int, width: int = _BAR_WIDTH) -> str:
    filled = width * done // max(total, 1)
    return "█" * filled + "░" * (width - filled)


def _columns() -> int:
    """Return the width of the terminal; one that does not know it (0) counts as 80."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _UNKNOWN_COLUMNS
    except OSError:
        return _UNKNOWN_COLUMNS


def format_duration(seconds: float) -> str:
    """Return a time as minutes and seconds, from an hour on with the hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class RunLine:
    """Draws what others say of a run; a context manager that takes the line away."""

    def __init__(self, title: str) -> None:
        self._title = title
        self.is_terminal = _can_draw_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away, for words of another kind."""
        self._draw("")

    def update(self, theatre: dict[str, Any]) -> None:
        """Take a theatre as an event of the service has it."""
        run = theatre["run"]
        if run is not None:
            facts = [f"failed {run['failures']}"]
            if run["eta_seconds"] is not None:
                facts.append(f"{format_duration(run['eta_seconds'])} to go")
            self.show(run["progress"], run["total"], facts)

    def show(self, done: int, total: int, facts: Iterable[str]) -> None:
        """Draw a bar, and facts behind it."""
        words = " │ ".join([f"{done}/{total}", *facts])
        bar = f"{self._title} {_bar(done, total)} {words}"
        if len(bar) >= _columns():
            bar = f"{_bar(done, total, _NARROW_BAR_WIDTH)} {words}"[: _columns() - 1]
        self._draw(bar)

    def _draw(self, line: str) -> None:
        if self.is_terminal:
            click.echo(f"{_CLEAR}{line}", nl=False, err=True)
