"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.api.functions import validate as validate_file
from theatre.cli.certificate_report import print_preview
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document
from theatre.cli.options import template_argument
from theatre.cli.reports import print_violations


@click.command()
@template_argument
@click.option("--rehearsal", is_flag=True, help="As a template to rehearse, not to certify.")
@json_option
def validate(template: Path, *, rehearsal: bool, as_json: bool) -> None:
    """Check TEMPLATE against the schema and every rule; all violations are listed.

    Where its data are at hand: how many of the questions differ, which give an answer away, what
    answers without any work would score, and which codes would cap the tier.
    """
    found = validate_file(template, rehearsal=rehearsal)
    if as_json:
        print_document(found.as_document())
    else:
        print_violations("error", found.errors)
        print_violations("warning", found.warnings)
        if found.evidence is not None:
            print_preview(found.evidence)
        click.echo("valid" if found.valid else f"invalid: {len(found.errors)} error(s)")
    if not found.valid:
        raise CommandEndedError(ExitCode.INVALID)
