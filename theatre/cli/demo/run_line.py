"""How far a run of the service is: a live line on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from typing import Any, Self

import click

from theatre.cli.exits import is_terminal
from theatre.cli.progress import BAR_WIDTH

_CLEAR = "\r\x1b[2K"


class RunLine:
    """Draws what a service says of a run; a context manager that takes the line away."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._terminal = is_terminal(sys.stderr)

    def __enter__(self) -> Self:
        """Start without a line."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away."""
        self._draw("")

    def update(self, theatre: dict[str, Any]) -> None:
        """Take a theatre as an event of the service has it."""
        run = theatre["run"]
        if run is not None:
            self._draw(f"{self._title} {_bar(run['progress'], run['total'])} {_counts(run)}")

    def _draw(self, line: str) -> None:
        if self._terminal:
            click.echo(f"{_CLEAR}{line}", nl=False, err=True)


def _bar(done: int, total: int) -> str:
    filled = BAR_WIDTH * done // max(total, 1)
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def _counts(run: dict[str, Any]) -> str:
    counts = f"{run['progress']}/{run['total']} │ failed {run['failures']}"
    return counts if run["eta_seconds"] is None else f"{counts} │ {run['eta_seconds']:.0f} s to go"
