"""Tables, numbers and JSON values as plain text."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import click

from theatre.cli.exits import echo, is_terminal, printable
from theatre.engine.canonical_json import JsonValue
from theatre.engine.clock import parse_rfc3339

_MOST_LINES = 12
"""So many lines of a value are shown on a terminal."""

_NARROWEST = 20
"""Text is not broken into shorter lines, however deep it lies."""


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `header` on stdout, without what could steer a terminal."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, ["-" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


LEAST_P = 1e-6


def score_name(name: str) -> str:
    """Return what a reader calls a score: a criterion's own name, or "composite"."""
    return "composite" if name == "composite_score" else name


def format_number(value: float | None) -> str:
    """Return a score as tables show it."""
    return "-" if value is None else f"{value:.3f}"


def format_p(value: float) -> str:
    """Return a p-value; what is kept to six places is never shown as 0."""
    return f"{value:.2g}" if value >= LEAST_P else f"<{LEAST_P:.0e}"


def tier_at(certificate: Mapping[str, Any], now: datetime) -> str:
    """Return the tier of a certificate as it stands `now`: of one that has lapsed, UNVERIFIED."""
    ends = certificate["expires_at"]
    has_lapsed = ends is not None and now >= parse_rfc3339(ends)
    return "UNVERIFIED" if has_lapsed else str(certificate["verification_tier"])


def format_tier(certificate: Mapping[str, Any], now: datetime) -> str:
    """Return the same with the tier that lapsed."""
    tier, issued = tier_at(certificate, now), certificate["verification_tier"]
    return tier if tier == issued else f"{tier} (issued as {issued}, which lapsed)"


def format_bounds(interval: Mapping[str, Any], missing: str = "no interval") -> str:
    """Return the bounds of an interval, or `missing` where it has none."""
    if interval["low"] is None:
        return missing
    return f"{interval['low']:.3f} … {interval['high']:.3f}"


def format_interval(interval: Mapping[str, Any]) -> str:
    """Return an interval with its method."""
    return f"{format_bounds(interval, '-')} ({interval['method']})"


def format_estimate(estimate: Mapping[str, Any]) -> str:
    """Return a value with the bounds of its interval, where it has some."""
    bounds = format_bounds(estimate, "")
    return format_number(estimate["value"]) + (f" ({bounds})" if bounds else "")


def format_usage(usage: Mapping[str, Any]) -> str:
    """Return what calls took, as a certificate's `usage` has it: tokens, dollars, quantiles."""
    facts = [f"{usage['calls']} call{'' if usage['calls'] == 1 else 's'}"]
    if usage["calls_counted"]:
        counted, of = usage["calls_counted"], usage["calls"]
        partly = "" if counted == of else f" as counted for {counted} of them"
        facts.append(f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out{partly}")
        facts.append("no price" if usage["cost_usd"] is None else format_dollars(usage["cost_usd"]))
    else:
        facts.append("no tokens counted")
    latency = " ".join(f"{name} {value}" for name, value in usage["latency_ms"].items())
    return ", ".join([*facts, f"{latency} ms"])


def format_dollars(amount: float) -> str:
    """Return dollars with cents, small amounts with four significant digits."""
    return f"${amount:.2f}" if amount >= 1 else f"${Decimal(f'{amount:.4g}'):f}"


def terminal_width() -> int | None:
    """Return how many characters fit on a line of the terminal; None where none reads."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def on_a_line(value: JsonValue) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str, width: int | None) -> str:
    """Return a text cut to a width, with a mark at its end; whole where there is no width."""
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"


def print_value(name: str, value: JsonValue, *, is_whole: bool) -> None:
    """Print a value under its name: on a terminal its beginning, unless `is_whole`."""
    width = terminal_width()
    lines = [*_lines_of(value, (width or 100) - 4)]
    shown = lines if is_whole or width is None else lines[:_MOST_LINES]
    indent = " " * (len(name) - len(name.lstrip()) + 2)
    echo(name)
    for line in shown:
        echo(indent + line)
    if len(shown) < len(lines):
        echo(f"  … {len(lines) - len(shown)} more lines: --full")


def _lines_of(value: JsonValue, width: int) -> Iterator[str]:
    """Yield a value in lines of at most a width, where it can be broken."""
    if isinstance(value, str):
        if "\n" not in value and len(value) <= width:
            yield value
            return
        for line in value.split("\n"):
            yield from textwrap.wrap(line, max(width, _NARROWEST), drop_whitespace=False) or [""]
        return
    whole = on_a_line(value)
    if len(whole) <= width or not value or not isinstance(value, dict | list):
        yield whole
        return
    members = value.items() if isinstance(value, dict) else (("-", one) for one in value)
    for name, one in members:
        head = name if name == "-" else f"{name}:"
        short = one if isinstance(one, str) and "\n" not in one else on_a_line(one)
        if len(head) + 1 + len(short) <= width:
            yield f"{head} {short}"
        else:
            yield head
            yield from (f"  {line}" for line in _lines_of(one, width - 2))
