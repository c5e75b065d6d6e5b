"""`echelon openapi`: the interface as a document."""

from __future__ import annotations

from pathlib import Path

import click

from backend.api.interface import format_openapi
from backend.main import create_app
from backend.settings import Settings


@click.command()
def openapi() -> None:
    """Print the description of the HTTP interface, as docs/openapi.json has it."""
    # Nothing is opened for it: the application does that when it is served.
    click.echo(format_openapi(create_app(Settings(home=Path())).openapi()), nl=False)
