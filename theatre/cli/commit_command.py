"""`echelon theatre commit`: a theatre in the store, committed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from theatre.cli.committing import commit_template
from theatre.cli.output import json_option, print_document
from theatre.cli.reaching import check_named
from theatre.cli.template_argument import template_argument
from theatre.cli.template_files import read_template, require_valid
from theatre.cli.workspace import Workspace
from theatre.engine.templates import ProductTheatreTemplate, view_template


@click.command()
@template_argument
@json_option
def commit(template: Path, *, as_json: bool) -> None:
    """Create a theatre from TEMPLATE and commit it; its data must be there and unchanged."""
    committed = commit_file(template, Workspace.from_environment())
    if as_json:
        print_document(committed)
    else:
        click.echo(f"theatre     {committed['theatre_id']}")
        click.echo(f"commitment  {committed['commitment_hash']}")


def commit_file(template: Path, workspace: Workspace) -> dict[str, str]:
    """Commit a template file; return what `--json` prints of it.

    Errors as `commit_template` and `check_named`.
    """
    document = read_template(template)
    require_valid(document)
    view = view_template(document)
    if isinstance(view, ProductTheatreTemplate):
        for doubt in check_named(view, workspace, template.parent):
            click.echo(f"warning: {doubt}", err=True)
    committed = asyncio.run(
        commit_template(document, template_folder=template.parent, workspace=workspace)
    )
    return {
        "theatre_id": committed.theatre_id,
        "state": committed.state.value,
        "commitment_hash": committed.commitment.commitment_hash,
    }
