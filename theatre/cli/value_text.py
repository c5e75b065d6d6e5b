"""JSON values as a person reads them: short ones on a line, long texts as text, the rest nested."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator

from theatre.cli.exits import echo, is_terminal
from theatre.engine.canonical_json import JsonValue

MOST_LINES = 12
"""So many lines of a value are shown on a terminal."""

_NARROWEST = 20
"""Text is not broken into shorter lines, however deep it lies."""


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
    shown = lines if is_whole or width is None else lines[:MOST_LINES]
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
        for line in value.split("\n") if "\n" in value or len(value) > width else ():
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
