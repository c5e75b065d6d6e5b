"""`echelon theatre commit`: from a template file to a committed theatre in the store."""

from pathlib import Path

import click

from theatre.api.commitments import commit_named
from theatre.api.template_files import read_template, require_valid
from theatre.api.workspace import Workspace
from theatre.cli.exits import json_option, print_document
from theatre.cli.options import template_argument


@click.command()
@template_argument
@json_option
def commit(template: Path, *, as_json: bool) -> None:
    """Create a theatre from TEMPLATE and commit it; its data must be there and unchanged."""
    valid = require_valid(read_template(template))
    theatre = commit_named(valid, template.parent, Workspace.from_environment())
    commitment_hash = theatre.commitment.commitment_hash
    if as_json:
        print_document(
            {
                "theatre_id": theatre.theatre_id,
                "state": theatre.state.value,
                "commitment_hash": commitment_hash,
            }
        )
    else:
        click.echo(f"theatre     {theatre.theatre_id}")
        click.echo(f"commitment  {commitment_hash}")
