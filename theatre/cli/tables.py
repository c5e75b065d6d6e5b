"""Tables as aligned plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from theatre.cli.exits import printable


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `header` on stdout, without what could steer a terminal."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, ["-" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def format_number(value: float | None) -> str:
    """Return a score as tables show it."""
    return "-" if value is None else f"{value:.3f}"


def format_interval(interval: Mapping[str, Any]) -> str:
    """Return an interval with its method as tables show it."""
    if interval["low"] is None:
        return f"- ({interval['method']})"
    return f"{interval['low']:.3f} … {interval['high']:.3f} ({interval['method']})"
