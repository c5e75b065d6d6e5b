"""Tables: drawn by rich on a terminal, aligned plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from theatre.cli.output import is_terminal, printable


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `header` on stdout, without what could steer a terminal."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if is_terminal(sys.stdout):
        _print_rich(header, rows)
    else:
        _print_plain(header, rows)


def format_number(value: float | None) -> str:
    """Return a score as tables show it."""
    return "-" if value is None else f"{value:.3f}"


def format_interval(interval: Mapping[str, Any]) -> str:
    """Return an interval with its method as tables show it."""
    if interval["low"] is None:
        return f"- ({interval['method']})"
    return f"{interval['low']:.3f} … {interval['high']:.3f} ({interval['method']})"


def _print_plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, ["-" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_rich(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # Imported here: rich costs start-up time that a pipe need not pay.
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # see above
    from rich.console import Console  # noqa: PLC0415  # see above
    from rich.table import Table  # noqa: PLC0415  # see above
    from rich.text import Text  # noqa: PLC0415  # see above

    # Two columns of space between cells: what fits as plain text fits here.
    table = Table(*header, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for row in rows:
        # As Text: brackets in a cell are no markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
