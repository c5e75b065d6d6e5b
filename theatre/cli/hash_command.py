"""`echelon theatre hash`: the commitment hash of a template, without anything that runs one."""

from pathlib import Path

import click

from theatre.api.template_files import read_template, require_valid
from theatre.cli.exits import json_option, print_document
from theatre.cli.options import template_argument
from theatre.engine.commitment import CommitmentProtocol


@click.command("hash")
@template_argument
@json_option
def hash_(template: Path, *, as_json: bool) -> None:
    """Print the commitment hash that TEMPLATE would get; nothing is stored."""
    document = read_template(template)
    require_valid(document)
    commitment_hash = CommitmentProtocol.hash_template(document)
    if as_json:
        print_document({"commitment_hash": commitment_hash})
    else:
        click.echo(commitment_hash)
