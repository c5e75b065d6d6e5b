"""What every command shares about output: the `--json` flag, and one document on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TextIO

import click

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, also on failure."
)


def print_document(document: Mapping[str, object]) -> None:
    """Print `document` as JSON on stdout."""
    # As bytes: JSON is UTF-8 whatever the terminal is, and half a surrogate pair (a file name
    # that is no UTF-8) becomes an escape of JSON's own.
    click.echo(
        json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace")
    )


def echo(line: str, *, err: bool = False) -> None:
    """Print one line of untrusted text: it must not steer a terminal or forge a line."""
    click.echo(printable(line), err=err)


def printable(text: str) -> str:
    """Return `text` with every control or invisible character replaced by `?`."""
    return "".join(character if character.isprintable() else "?" for character in text)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person reads `stream`; it is None where the caller closed it."""
    return stream is not None and stream.isatty()
