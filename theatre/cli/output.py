"""What every command shares about output: the `--json` flag, and one document on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, also on failure."
)


def print_document(document: Mapping[str, object]) -> None:
    """Print `document` as JSON on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))
